// kvscope replay: the user's own prompts under several arms, recorded like any sweep.
#include "harness/commands/replay.h"

#include <CLI/CLI.hpp>

#include "harness/commands/sweep_run.h"

namespace kvscope {

void add_replay_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand(
      "replay", "Your own prompts: how close does each arm stay to the full cache?");
  struct Options {
    SweepOptions sweep;
    int max_new_tokens = 64;
    int limit = 0;
  };
  auto options = std::make_shared<Options>();
  SweepOptions& sweep = options->sweep;
  sweep.arms = {kDefaultPolicies, "", ""};
  command
      ->add_option("prompts", sweep.files.prompts,
                   "JSON lines: {\"messages\": […]} as in chat completions, or {\"prompt\": \"…\"}")
      ->required();
  add_plugin_option(*command, sweep.arms.plugins);
  command
      ->add_option("--policies", sweep.arms.policies,
                   "Policies, separated by commas; full always runs")
      ->capture_default_str();
  command->add_option("--budgets", sweep.arms.budgets,
                      "Shares of the prompt that stay: 0.1,0.2,0.5 or 0.1:0.5:0.1");
  command->add_option("--budget-tokens", sweep.arms.budget_tokens,
                      "Tokens that stay per layer and KV head, separated by commas");
  command->add_option("--max-new-tokens", options->max_new_tokens, "Most tokens of an answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--limit", options->limit, "Only the first N prompts")
      ->check(CLI::Range(1, 1'000'000));
  add_run_options(*command, sweep);
  command->footer(
      "Examples:\n"
      "  kvscope replay prompts.jsonl --policies h2o,snapkv --budgets 0.2,0.5 --db mine.db\n"
      "  kvscope compare full snapkv@0.200 --db mine.db\n"
      "Metrics: kl_full_nats and top1_agreement along the full cache's answer; answer_agreement\n"
      "and first_divergence_step of the arm's own one.");
  set_action(*command, context, [options, &context] {
    SweepOptions chosen = options->sweep;
    chosen.tasks = "replay:new_tokens=" + std::to_string(options->max_new_tokens) +
                   ":samples=" + std::to_string(options->limit);
    if (chosen.arms.budgets.empty() && chosen.arms.budget_tokens.empty()) {
      chosen.arms.budgets = kDefaultBudgets;
    }
    return run_sweep(chosen, context.cuda);
  });
}

}  // namespace kvscope
