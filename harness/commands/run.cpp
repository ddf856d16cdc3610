#include "harness/commands/run.h"

#include <CLI/CLI.hpp>

#include "harness/commands/sweep_run.h"
#include "runner/base/error.h"
#include "runner/policies/catalog.h"

namespace kvscope {

void add_run_command(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("run", "Run one policy at one budget beside the full cache");
  struct Options {
    SweepOptions sweep;
    ArmOptions arm;
  };
  auto options = std::make_shared<Options>();
  add_arm_options(*command, options->arm);
  command->get_option("--policy")->required(false);  // a suite names policies, too
  command->add_option("--tasks", options->sweep.tasks, "Tasks with their keys (see list tasks)")
      ->capture_default_str();
  add_sweep_options(*command, options->sweep);
  command->footer(
      "Examples:\n"
      "  kvscope run --policy snapkv --budget 0.2 --tasks needle --db a.db\n"
      "  kvscope run --policy h2o:norm=mean --budget-tokens 256 --tasks qa:samples=50 --db a.db");
  set_action(*command, context, [options, command, &context] {
    options->sweep.arms.plugins = options->arm.plugins;
    if (takes_suite(*command)) return run_sweep(options->sweep, context.cuda);
    if (options->arm.policy.empty()) throw UsageError("give --policy or --suite");
    const PolicySpec spec =
        parse_policy(options->arm.policy, catalog_with_plugins(options->arm.plugins));
    const auto budget = budget_of(options->arm, spec);
    if (!budget) {
      throw UsageError("policy '" + spec.canonical +
                       "' needs a budget: give --budget 0.2 or --budget-tokens 256");
    }
    SweepOptions chosen = options->sweep;
    chosen.arms.policies = options->arm.policy;
    chosen.arms.plugins = options->arm.plugins;
    if (!spec.is_full()) {
      (budget->tokens ? chosen.arms.budget_tokens : chosen.arms.budgets) =
          budget->tokens ? std::to_string(*budget->tokens) : options->arm.budget;
    }
    return run_sweep(chosen, context.cuda);
  });
}

}  // namespace kvscope
