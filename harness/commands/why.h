// kvscope why: the cause of one recorded failure, checked by putting it right.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_why_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
