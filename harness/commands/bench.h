// kvscope bench: how long the program's own work takes on this machine.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_bench_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
