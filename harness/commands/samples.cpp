// kvscope samples: what a task's samples look like, without running anything on them.
#include "harness/commands/samples.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <limits>

#include "harness/commands/chat_option.h"
#include "harness/commands/sweep_run.h"
#include "harness/report/json.h"
#include "harness/report/table.h"
#include "harness/tasks/task.h"

namespace kvscope {
namespace {

struct SamplesOptions {
  std::string model;
  std::string chat_template;
  std::string tasks = "needle";
  TaskFiles files;
  int limit = 5;
  bool json = false;
};

Json spans_json(const Sample& sample) {
  Json spans = Json::array();
  for (const auto& [begin, end] : sample.evidence_spans) spans.push_back({begin, end});
  return spans;
}

Json sample_json(const Sample& sample, std::string_view task, const Tokenizer& tokenizer) {
  return {{"task", task},
          {"key", sample.key},
          {"cluster", sample.cluster_key},
          {"prompt_tokens", sample.prompt_ids.size()},
          {"question_begin", sample.question_begin},
          {"evidence_spans", spans_json(sample)},
          {"golds", sample.golds},
          {"max_new_tokens", sample.max_new_tokens},
          {"tags", sample.tags},
          {"input_sha256", sample.input_sha256},
          {"prompt", tokenizer.decode(sample.prompt_ids)},
          {"prefix", tokenizer.decode(sample.prefix_ids)},
          {"gold_answer", tokenizer.decode(sample.gold_ids)},
          {"prompt_ids", sample.prompt_ids}};
}

Json window_json(const TextWindow& window, std::string_view task, const Tokenizer& tokenizer) {
  return {{"task", task},
          {"key", window.key},
          {"cluster", window.cluster_key},
          {"tokens", window.ids.size()},
          {"first_scored", window.first_scored},
          {"input_sha256", window.input_sha256},
          {"text", tokenizer.decode(window.ids)}};
}

std::string spans_text(const Sample& sample) {
  std::string text;
  for (const auto& [begin, end] : sample.evidence_spans) {
    if (!text.empty()) text += ' ';
    text.append(std::to_string(begin)).append("-").append(std::to_string(end - 1));
  }
  return text.empty() ? "-" : text;
}

std::string shortened(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

void print_table(const Dataset& data, std::size_t shown, double seconds,
                 const Tokenizer& tokenizer) {
  Table table({"sample", "tokens", "evidence", "answer"});
  table.align(2, Table::Align::kLeft).align(3, Table::Align::kLeft);
  for (std::size_t i = 0; i < std::min(shown, data.samples.size()); ++i) {
    const Sample& s = data.samples[i];
    table.add_row({s.key, std::to_string(s.prompt_ids.size()), spans_text(s),
                   shortened(tokenizer.decode(s.gold_ids))});
  }
  for (std::size_t i = 0; i < std::min(shown, data.windows.size()); ++i) {
    const TextWindow& w = data.windows[i];
    table.add_row({w.key, std::to_string(w.ids.size()), "-", "-"});
  }
  const std::size_t n = data.samples.size() + data.windows.size();
  std::cout << data.name << " (" << data.version << ")\n"
            << table.text() << n << " samples made in " << format_fixed(seconds, 3) << " s ("
            << format_fixed(static_cast<double>(n) / seconds, 0) << " a second)\n";
}

ExitCode run_samples(const SamplesOptions& options) {
  const std::vector<TaskSpec> specs = parse_tasks(options.tasks);
  const auto tokenizer = open_model_tokenizer(options.model, options.chat_template);
  const TaskFiles files = with_prepared_text(options.files);
  const auto shown = options.limit == 0 ? std::numeric_limits<std::size_t>::max()
                                        : static_cast<std::size_t>(options.limit);
  for (const TaskSpec& spec : specs) {
    const auto start = std::chrono::steady_clock::now();
    const auto task = find_task(spec.name)->make(spec, files, *tokenizer);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const Dataset& data = task->dataset();
    for (const std::string& note : data.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
    if (!options.json) {
      print_table(data, shown, elapsed.count(), *tokenizer);
      continue;
    }
    for (std::size_t i = 0; i < std::min(shown, data.samples.size()); ++i) {
      print_json_line(std::cout, sample_json(data.samples[i], spec.name, *tokenizer));
    }
    for (std::size_t i = 0; i < std::min(shown, data.windows.size()); ++i) {
      print_json_line(std::cout, window_json(data.windows[i], spec.name, *tokenizer));
    }
  }
  return ExitCode::kOk;
}

}  // namespace

void add_samples_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<SamplesOptions>();
  CLI::App* command =
      app.add_subcommand("samples", "Show a task's samples; nothing is run on them");
  command->add_option("--tasks", options->tasks, "Tasks with their keys (see list tasks)")
      ->capture_default_str();
  add_task_file_options(*command, options->files);
  command->add_option("--limit", options->limit, "Samples of each task to show, 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000'000));
  add_model_file_option(*command, options->model);
  add_chat_option(*command, options->chat_template);
  command->add_flag("--json", options->json, "One JSON object a sample, with text and token ids");
  command->footer(
      "Examples:\n"
      "  kvscope samples --tasks ruler:kind=vt:length=2048\n"
      "  kvscope samples --tasks niah:lengths=2:depths=3 --limit 1 --json");
  set_action(*command, context, [options] { return run_samples(*options); });
}

}  // namespace kvscope
