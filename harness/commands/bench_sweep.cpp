// kvscope bench sweep: many arms against the full arm alone.
#include <CLI/CLI.hpp>
#include <iostream>

#include "datasets/needle/needle.h"
#include "harness/commands/bench.h"
#include "harness/commands/bench_common.h"
#include "harness/plan/arms.h"
#include "harness/report/table.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct SweepBenchOptions : BenchOptions {
  ArmTexts arms = {"streaming_llm,h2o,tova,snapkv", "0.1,0.2,0.5", ""};
  int prompt = 2048;
  int answer = 32;
  int rows = 3;
  int samples = 1;
};

// Seconds for all samples, one after the other, each with `arms`.
double time_arms(Engine& engine, const SweepBenchOptions& options, const Dataset& data,
                 std::span<const ArmPlan> arms) {
  return seconds_of([&] {
    for (const Sample& sample : data.samples) {
      GenerateRequest request;
      request.prompt = sample.prompt_ids;
      // Three rows an arm as in a sweep, with the restated fact fed first; or the free answer
      // alone, `answer` decoding steps. Nothing stops early, so that every arm does the same work.
      if (options.rows == 3) {
        request.prefix = sample.prefix_ids;
        request.gold = sample.gold_ids;
        request.forced = true;
      }
      request.max_new_tokens = options.answer;
      // Without a prefix the engine feeds the prompt's last token after the selection.
      const int length = int(request.prompt.size()) - (request.prefix.empty() ? 1 : 0);
      for (const ArmPlan& arm : arms) {
        request.arms.push_back({fit_policy(arm.policy, {arm.budget, length, false}), nullptr});
      }
      const auto results = engine.generate(std::span(&request, 1));
      for (const GenerateArmResult& result : results->front()) {
        if (!result.error.empty()) throw DataError("bench sweep: " + result.error);
      }
    }
  });
}

ExitCode bench_sweep(const SweepBenchOptions& options, const CudaSupport& cuda) {
  const std::vector<ArmPlan> arms = expand_arms(options.arms);
  if (arms.size() < 2) throw UsageError("bench sweep: name a policy beside full");
  const OpenedModel opened = open_model(options.model, cuda);
  NeedleOptions needle;
  needle.lengths = {options.prompt};
  needle.samples_per_length = options.samples;
  const Dataset data = make_needle(needle, *opened.tokenizer);

  const std::span<const ArmPlan> all(arms);
  const std::vector<std::function<double()>> measurements = {
      [&] { return time_arms(*opened.engine, options, data, all.first(1)); },
      [&] { return time_arms(*opened.engine, options, data, all); }};
  const auto seconds = measure_in_turn(options.repetitions, measurements);
  const double full = seconds[0].median();
  const double sweep = seconds[1].median();
  const std::size_t n_policies = arms.size() - 1;  // beside full
  if (options.json) {
    Json out = bench_json("sweep", opened, options);
    out["arms"] = arms.size();
    out["prompt_tokens"] = options.prompt;
    out["answer_tokens"] = options.answer;
    out["rows_per_arm"] = options.rows;
    out["samples"] = options.samples;
    out["full_seconds"] = samples_json(seconds[0]);
    out["sweep_seconds"] = samples_json(seconds[1]);
    out["ratio_to_full"] = json_number(sweep / full);
    out["one_arm_to_full"] = json_number((sweep - full) / double(n_policies) / full);
    print_json_line(std::cout, out);
    return ExitCode::kOk;
  }
  Table table({"work", "seconds", "of full alone"});
  table.add_row({"full alone", samples_text(seconds[0], 2), "1.00"});
  table.add_row({"full and " + std::to_string(n_policies) + " arms", samples_text(seconds[1], 2),
                 format_fixed(sweep / full, 2)});
  table.add_row({"each arm beside full", format_fixed((sweep - full) / double(n_policies), 3),
                 format_fixed((sweep - full) / double(n_policies) / full, 3)});
  std::cout << bench_line(opened, options) << options.samples << " × prompt " << options.prompt
            << ", answer " << options.answer << ", rows an arm: " << options.rows << '\n'
            << table.text();
  return ExitCode::kOk;
}

}  // namespace

void add_bench_sweep(CLI::App& bench, CommandContext& context) {
  auto options = std::make_shared<SweepBenchOptions>();
  CLI::App* command =
      bench.add_subcommand("sweep", "A sweep of many arms against the full arm alone");
  add_bench_options(*command, *options);
  add_plugin_option(*command, options->arms.plugins);
  command->add_option("--policies", options->arms.policies, "Policies beside full")
      ->capture_default_str();
  command->add_option("--budgets", options->arms.budgets, "Their budgets")->capture_default_str();
  command->add_option("--prompt", options->prompt, "Tokens of the prompt")
      ->capture_default_str()
      ->check(CLI::Range(64, 1'000'000));
  command->add_option("--answer", options->answer, "Tokens of the answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  command
      ->add_option("--rows", options->rows, "Rows an arm: 3 as in a sweep, or 1, the answer alone")
      ->capture_default_str()
      ->check(CLI::IsMember({1, 3}));
  command->add_option("--samples", options->samples, "Prompts")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  command->footer(
      "Examples:\n"
      "  kvscope bench sweep --prompt 2048 --answer 32 --rows 1 --json\n"
      "48 arms beside full (4 policies × 12 budgets):\n"
      "  kvscope bench sweep --policies streaming_llm,h2o,tova,snapkv --budgets 0.05:0.6:0.05");
  set_action(*command, context,
             [options, &context] { return bench_sweep(*options, context.cuda); });
}

}  // namespace kvscope
