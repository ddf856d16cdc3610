#include "harness/commands/sweep.h"

#include <CLI/CLI.hpp>

#include "harness/commands/sweep_run.h"

namespace kvscope {

void add_sweep_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand(
      "sweep", "Run policies x budgets on tasks, beside the full cache, into a database");
  auto options = std::make_shared<SweepOptions>();
  options->arms = {kDefaultPolicies, "", ""};
  add_plugin_option(*command, options->arms.plugins);
  command
      ->add_option("--policies", options->arms.policies,
                   "Policies, separated by commas; full always runs")
      ->capture_default_str();
  command->add_option("--budgets", options->arms.budgets,
                      "Shares of the prompt that stay: 0.1,0.2,0.5 or 0.1:0.5:0.1");
  command->add_option("--budget-tokens", options->arms.budget_tokens,
                      "Tokens that stay per layer and KV head, separated by commas");
  command->add_option("--tasks", options->tasks, "Tasks with their keys (see list tasks)")
      ->capture_default_str();
  add_sweep_options(*command, *options);
  command->footer(
      "Examples:\n"
      "  kvscope sweep --policies h2o,snapkv,tova --budgets 0.1,0.2,0.5 --tasks needle,qa --db "
      "a.db\n"
      "  kvscope sweep --policies streaming_llm:sinks=0,streaming_llm --budget-tokens 256 \\\n"
      "                --tasks perplexity:windows=8 --text book.txt --context 2048 --db a.db\n"
      "  kvscope sweep --budgets 0.2 --tasks needle:length=1024:length=2048:samples=20:seed=1 \\\n"
      "                --haystack essays/ --metrics-listen 9400 --db a.db\n"
      "  kvscope sweep --budgets 0.2 --tasks needle,qa --question both --db a.db\n"
      "  kvscope sweep --suite docs/examples/suite.json --db a.db\n"
      "The same command again goes on where it stopped; --new starts afresh.");
  set_action(*command, context, [options, command, &context] {
    if (takes_suite(*command)) return run_sweep(*options, context.cuda);
    SweepOptions chosen = *options;
    if (chosen.arms.budgets.empty() && chosen.arms.budget_tokens.empty()) {
      chosen.arms.budgets = kDefaultBudgets;
    }
    return run_sweep(chosen, context.cuda);
  });
}

}  // namespace kvscope
