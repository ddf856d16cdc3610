#include "harness/commands/simulate.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/commands/simulate_report.h"
#include "harness/export/textfile.h"
#include "harness/plan/stop_signals.h"
#include "harness/report/progress.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct SimulateOptions {
  std::string trace;
  ArmTexts arms;
  std::optional<int> prompt_tokens;
  bool oracles = false;
  int random_seeds = 5;
  int threads = 0;
  bool by_layer = false;
  std::string csv;
  bool json = false;
};

std::vector<ArmPlan> arms_of(const ArmTexts& texts) {
  std::vector<ArmPlan> arms = expand_arms(texts);
  // Nothing of the full cache is missed; only an arm that evicts has a curve.
  std::erase_if(arms, [](const ArmPlan& arm) { return arm.is_reference(); });
  if (arms.empty())
    throw UsageError("--policies full: nothing is evicted; name policies that evict");
  return arms;
}

ExitCode run_simulate(const SimulateOptions& options) {
  const StopSignals signals;
  SimulateRun run;
  run.arms = arms_of(options.arms);
  run.oracles = options.oracles;
  run.random_seeds = options.random_seeds;
  const std::filesystem::path folder =
      options.csv.empty() ? "" : std::filesystem::absolute(options.csv).parent_path();
  if (!options.csv.empty() && !std::filesystem::is_directory(folder)) {
    throw IoError("--csv " + options.csv + ": there is no folder " + folder.string());
  }
  const TraceReader trace(options.trace);
  const TraceFacts& facts = trace.facts();
  run.prompt_tokens = options.prompt_tokens.value_or(facts.prompt_tokens);
  if (run.prompt_tokens >= facts.n_tokens) {
    throw UsageError("a prompt of " + std::to_string(run.prompt_tokens) +
                     " tokens leaves none of " + "the trace's " + std::to_string(facts.n_tokens) +
                     " to replay: give a smaller --prompt-tokens");
  }
  std::optional<Progress> progress;
  const auto advanced = [&](int n_layers) {
    if (!progress) progress.emplace("simulate", std::int64_t(facts.layers.size()), "layers");
    progress->advance(n_layers);
  };
  const auto arms = simulate(
      trace, run, options.threads, [&] { return signals.requested(); }, advanced);
  progress.reset();  // its last line comes before the results
  if (!arms) {
    std::fprintf(stderr, "Stopped; nothing is kept.\n");
    return signals.exit_code().value_or(ExitCode::kTryAgain);
  }
  if (!options.csv.empty()) replace_file(options.csv, simulate_csv(run, facts, *arms));
  if (options.json) {
    print_json_line(std::cout, simulate_json(run, trace, *arms));
  } else {
    std::cout << simulate_text(run, facts, *arms, options.by_layer);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_simulate_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Hit ratios of policies and budgets on a recorded run, without the model");
  command->add_option("trace", options->trace, "File of kvscope trace record")->required();
  command->add_option("--policies", options->arms.policies, "Policies, separated by commas")
      ->required();
  add_plugin_option(*command, options->arms.plugins);
  auto* budgets = command->add_option("--budgets", options->arms.budgets,
                                      "Ratios, like 0.1,0.2 or 0.1:0.5:0.1");
  command->add_option("--budget-tokens", options->arms.budget_tokens, "Tokens, like 128,256")
      ->excludes(budgets);
  command
      ->add_option("--prompt-tokens", options->prompt_tokens,
                   "Another prompt than the trace's; 0: policies act from the first token on")
      ->check(CLI::Range(0, 1 << 24));
  command->add_flag("--oracles", options->oracles,
                    "Best possible losses, regret and skill (slower)");
  command
      ->add_option("--random-seeds", options->random_seeds,
                   "Runs of the random control that skill is measured from")
      ->capture_default_str()
      ->check(CLI::Range(5, 1000));
  command->add_flag("--by-layer", options->by_layer, "A line a layer too");
  command->add_option("--csv", options->csv, "Also write a CSV file, one line an arm and layer");
  command->add_option("--threads", options->threads, "Computing threads (default: all processors)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", options->json, "One JSON object");
  command->footer(
      "Examples:\n"
      "  kvscope simulate book.trace --policies h2o,tova,snapkv --budgets 0.1:0.5:0.1\n"
      "  kvscope simulate book.trace --policies h2o --budget-tokens 256 --oracles --json");
  set_action(*command, context, [options] { return run_simulate(*options); });
}

}  // namespace kvscope
