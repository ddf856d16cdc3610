// kvscope power: how many samples does a decision need? From the variance that was recorded.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_power_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
