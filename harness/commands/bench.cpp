#include "harness/commands/bench.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <vector>

#include "datasets/needle/needle.h"
#include "harness/plan/arms.h"
#include "harness/report/json.h"
#include "harness/report/table.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct BenchOptions {
  ModelOptions model;
  ArmTexts arms = {"streaming_llm,h2o,tova,snapkv", "0.1,0.2,0.5", ""};
  int prompt = 2048;
  int answer = 16;
  int rows = 3;
  int samples = 1;
  int repetitions = 3;
  bool json = false;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Seconds for all samples, one after the other, each with the first `n_arms` arms.
double time_arms(Engine& engine, const BenchOptions& options, const Dataset& data,
                 std::span<const ArmPlan> arms) {
  const auto start = std::chrono::steady_clock::now();
  for (const Sample& sample : data.samples) {
    GenerateRequest request;
    request.prompt = sample.prompt_ids;
    request.prefix = sample.prefix_ids;
    // Three rows an arm as in a sweep, or the free answer alone. Nothing stops early, so that every
    // arm does the same work.
    request.forced = options.rows == 3;
    if (options.rows == 3) request.gold = sample.gold_ids;
    request.max_new_tokens = options.answer;
    for (const ArmPlan& arm : arms) {
      const int length = static_cast<int>(sample.prompt_ids.size());
      request.arms.push_back({fit_policy(arm.policy, {arm.budget, length, false}), nullptr});
    }
    const auto results = engine.generate(std::span(&request, 1));
    for (const GenerateArmResult& result : results->front()) {
      if (!result.error.empty()) throw DataError("bench: " + result.error);
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ExitCode bench_sweep(const BenchOptions& options) {
  const std::vector<ArmPlan> arms = expand_arms(options.arms);
  const OpenedModel opened = open_model(options.model);
  NeedleOptions needle;
  needle.lengths = {options.prompt};
  needle.samples_per_length = options.samples;
  const Dataset data = make_needle(needle, *opened.tokenizer);

  const std::span<const ArmPlan> all(arms);
  time_arms(*opened.engine, options, data, all);  // first use of memory and tables
  std::vector<double> full_seconds;
  std::vector<double> sweep_seconds;
  for (int i = 0; i < options.repetitions; ++i) {  // alternating: both see the same disturbances
    full_seconds.push_back(time_arms(*opened.engine, options, data, all.first(1)));
    sweep_seconds.push_back(time_arms(*opened.engine, options, data, all));
  }
  const double full = median(full_seconds);
  const double sweep = median(sweep_seconds);
  if (options.json) {
    print_json_line(std::cout,
                    {{"bench", "sweep"},
                     {"backend", opened.backend->description()},
                     {"threads", opened.backend->n_threads()},
                     {"arms", arms.size()},
                     {"prompt_tokens", options.prompt},
                     {"answer_tokens", options.answer},
                     {"rows_per_arm", options.rows},
                     {"samples", options.samples},
                     {"full_seconds", json_numbers(std::span<const double>(full_seconds))},
                     {"sweep_seconds", json_numbers(std::span<const double>(sweep_seconds))},
                     {"full_seconds_median", json_number(full)},
                     {"sweep_seconds_median", json_number(sweep)},
                     {"ratio_to_full", json_number(sweep / full)}});
    return ExitCode::kOk;
  }
  std::cout << opened.backend->description() << '\n'
            << "full alone: " << format_fixed(full, 2) << " s, " << arms.size()
            << " arms: " << format_fixed(sweep, 2) << " s, ratio " << format_fixed(sweep / full, 2)
            << " (medians of " << options.repetitions << ", prompt " << options.prompt
            << ", answer " << options.answer << ", " << options.rows << " rows an arm)\n";
  return ExitCode::kOk;
}

}  // namespace

void add_bench_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("bench", "Time the program's own work on this machine");
  command->require_subcommand(1);
  CLI::App* sweep =
      command->add_subcommand("sweep", "A sweep of many arms against the full arm alone");
  auto options = std::make_shared<BenchOptions>();
  add_model_options(*sweep, options->model);
  sweep->add_option("--policies", options->arms.policies, "Policies beside full")
      ->capture_default_str();
  sweep->add_option("--budgets", options->arms.budgets, "Their budgets")->capture_default_str();
  sweep->add_option("--prompt", options->prompt, "Tokens of the prompt")
      ->capture_default_str()
      ->check(CLI::Range(64, 1'000'000));
  sweep->add_option("--answer", options->answer, "Tokens of the answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  sweep->add_option("--rows", options->rows, "Rows an arm: 3 as in a sweep, or 1, the answer alone")
      ->capture_default_str()
      ->check(CLI::IsMember({1, 3}));
  sweep->add_option("--samples", options->samples, "Prompts")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  sweep->add_option("--repetitions", options->repetitions, "Of both, alternating")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000));
  sweep->add_flag("--json", options->json, "Print JSON");
  sweep->footer("Example:\n  kvscope bench sweep --prompt 2048 --answer 16 --json");
  set_action(*sweep, context, [options] { return bench_sweep(*options); });
}

}  // namespace kvscope
