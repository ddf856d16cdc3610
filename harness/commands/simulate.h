// kvscope simulate: any policies and budgets on a recorded run.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_simulate_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
