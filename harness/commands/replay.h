#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_replay_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
