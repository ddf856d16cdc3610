#include "harness/commands/bench.h"

#include <CLI/CLI.hpp>

namespace kvscope {

void add_bench_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("bench", "Time the program's own work on this machine");
  command->require_subcommand(1);
  add_bench_engine(*command, context);
  add_bench_sweep(*command, context);
  add_bench_score(*command, context);
  add_bench_probes(*command, context);
  add_bench_load(*command, context);
  add_bench_store(*command, context);
  add_bench_gpu(*command, context);
  command->footer(
      "Examples:\n"
      "  kvscope bench engine --dtype bf16 --prefill 512,4096 --rows 1,8,32\n"
      "  kvscope bench score --policy h2o --budget-tokens 256 --tokens 8192 --json\n"
      "  kvscope bench gpu --out gpu.json");
}

}  // namespace kvscope
