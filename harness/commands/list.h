// kvscope list: what there is: policies, tasks, metrics, arms, runs.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_list_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
