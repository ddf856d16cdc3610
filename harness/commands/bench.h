// kvscope bench: how long the program's own work takes on this machine.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_bench_command(CLI::App& app, CommandContext& context);

// Its subcommands, a file each.
void add_bench_engine(CLI::App& bench, CommandContext& context);  // prefill and decode
void add_bench_sweep(CLI::App& bench, CommandContext& context);   // many arms against full alone
void add_bench_score(CLI::App& bench, CommandContext& context);   // in-stream scoring of a text
void add_bench_probes(CLI::App& bench, CommandContext& context);  // levels of --probe
void add_bench_load(CLI::App& bench, CommandContext& context);    // opening a model
void add_bench_store(CLI::App& bench, CommandContext& context);   // rebound events in a database
void add_bench_gpu(CLI::App& bench, CommandContext& context);     // a CUDA device against the CPU

}  // namespace kvscope
