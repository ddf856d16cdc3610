#include "harness/commands/dataset.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "datasets/questions/inspect.h"
#include "harness/report/json.h"
#include "harness/report/table.h"
#include "runner/base/error.h"
#include "runner/tokenizer/open_tokenizer.h"

namespace kvscope {
namespace {

struct InspectOptions {
  std::string path;
  std::string model;
  std::vector<int> windows = {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
  bool no_tokens = false;
  bool json = false;
};

constexpr std::size_t kShownSkips = 20;

// Lengths need a tokenizer; the rest does not. A model that was named has to be there.
std::unique_ptr<Tokenizer> tokenizer_of(const InspectOptions& options) {
  if (options.no_tokens) return nullptr;
  std::error_code error;
  if (options.model.empty() && !std::filesystem::exists(default_model_file(), error)) {
    return nullptr;
  }
  return open_tokenizer(model_file_or_default(options.model));
}

Json counts_json(const std::map<std::string, std::size_t>& counts) {
  Json json = Json::object();
  for (const auto& [name, count] : counts) json[name] = count;
  return json;
}

Json inspection_json(const Inspection& found) {
  Json skipped = Json::array();
  for (const SkippedRecord& record : found.skipped) {
    skipped.push_back({{"line", record.line}, {"reason", record.reason}});
    if (!record.file.empty()) skipped.back()["file"] = record.file;
  }
  Json out = {{"format", found.format},
              {"samples", found.samples},
              {"documents", found.documents},
              {"distinct_documents", found.distinct_documents},
              {"without_answer", found.without_answer},
              {"tasks", counts_json(found.tasks)},
              {"metrics", counts_json(found.metrics)},
              {"skipped", skipped}};
  if (!found.no_questions.empty()) out["no_questions"] = found.no_questions;
  if (found.lengths) {
    const TokenLengths& lengths = *found.lengths;
    Json fits = Json::object();
    for (const auto& [window, count] : lengths.fitting) fits[std::to_string(window)] = count;
    out["token_lengths"] = {
        {"n", lengths.n},           {"total", lengths.total},     {"min", lengths.least},
        {"median", lengths.median}, {"p90", lengths.p90},         {"p99", lengths.p99},
        {"max", lengths.most},      {"room_tokens", kRoomTokens}, {"fits", fits}};
  }
  return out;
}

std::string counts_text(const std::map<std::string, std::size_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + name + " (" + std::to_string(count) + ")";
  }
  return text;
}

void print_inspection(const Inspection& found, const std::string& path) {
  Table table({"data set", path});
  table.align(1, Table::Align::kLeft);
  table.add_row({"format", found.format});
  table.add_row({"questions", std::to_string(found.samples)});
  table.add_row(
      {"documents", std::to_string(found.documents) +
                        (found.distinct_documents < found.documents
                             ? ", " + std::to_string(found.distinct_documents) + " distinct"
                             : "")});
  if (found.without_answer > 0) {
    table.add_row({"without an answer", std::to_string(found.without_answer)});
  }
  if (!found.tasks.empty()) table.add_row({"tasks", counts_text(found.tasks)});
  if (!found.metrics.empty()) table.add_row({"main metric", counts_text(found.metrics)});
  if (!found.no_questions.empty()) table.add_row({"to be asked", "nothing: " + found.no_questions});
  table.add_row({"skipped records", std::to_string(found.skipped.size())});
  if (found.lengths && found.lengths->n > 0) {
    const TokenLengths& lengths = *found.lengths;
    const auto number = [](std::size_t n) { return std::to_string(n); };
    table.add_row({"tokens", number(lengths.least) + " to " + number(lengths.most) + ", median " +
                                 number(lengths.median) + ", 90 % up to " + number(lengths.p90)});
    std::string fits;
    for (const auto& [window, count] : lengths.fitting) {
      fits += (fits.empty() ? "" : ", ") + number(count) + " in " + std::to_string(window);
      if (count == lengths.n) break;
    }
    table.add_row({"fit (with " + std::to_string(kRoomTokens) + " to spare)", fits});
  }
  std::cout << table.text();
  for (std::size_t i = 0; i < std::min(found.skipped.size(), kShownSkips); ++i) {
    const SkippedRecord& record = found.skipped[i];
    std::cout << "skipped: " << record.file << (record.file.empty() ? "" : ", ") << "line "
              << record.line << ": " << record.reason << '\n';
  }
  if (found.skipped.size() > kShownSkips) {
    std::cout << "skipped: " << found.skipped.size() - kShownSkips << " more (--json has all)\n";
  }
}

ExitCode run_inspect(const InspectOptions& options) {
  const auto tokenizer = tokenizer_of(options);
  const Inspection found = inspect_questions(options.path, tokenizer.get(), options.windows);
  if (options.json) {
    print_json_line(std::cout, inspection_json(found));
  } else {
    print_inspection(found, options.path);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_dataset_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* dataset = app.add_subcommand("dataset", "Look at a data set");
  dataset->require_subcommand(1);
  CLI::App* command = dataset->add_subcommand(
      "inspect", "Format, counts, token lengths and what cannot be used, of a file or folder");
  command->add_option("FILE", options->path, "A file, plain or gzip, or a folder")->required();
  command
      ->add_option("--windows", options->windows,
                   "Context lengths to say how many questions fit, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 30));
  add_model_file_option(*command, options->model);
  command->add_flag("--no-tokens", options->no_tokens, "Without token lengths, which take longest");
  command->add_flag("--json", options->json, "One JSON object");
  command->footer("Example:\n  kvscope dataset inspect qasper-dev-v0.3.json --json");
  set_action(*command, context, [options] { return run_inspect(*options); });
}

}  // namespace kvscope
