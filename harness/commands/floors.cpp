// kvscope floors: where is the full cache good enough that eviction can be judged at all?
#include "harness/commands/floors.h"

#include <CLI/CLI.hpp>

#include "harness/commands/sweep_run.h"

namespace kvscope {

void add_floors_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand(
      "floors", "The full cache on tasks, and the same questions without their texts");
  auto options = std::make_shared<SweepOptions>();
  options->arms = {"full", "", ""};
  options->probe = "off";
  options->floors = true;
  command->add_option("--tasks", options->tasks, "Tasks with their keys (see list tasks)")
      ->capture_default_str();
  add_task_file_options(*command, options->files);
  add_run_options(*command, *options);
  command->footer(
      "Examples:\n"
      "  kvscope floors --tasks needle:length=512:length=2048:samples=20 --db a.db\n"
      "  kvscope floors --tasks qa,passkey:length=1024 --haystack essays/ --db a.db\n"
      "Asked for: recall 0.8, string_match_all 0.5, token_f1 0.1 and twice that of no context.\n"
      "Sweeps into the same database then know what the questions alone give.");
  set_action(*command, context, [options, &context] { return run_sweep(*options, context.cuda); });
}

}  // namespace kvscope
