// kvscope show: everything about one arm, run or sample of a database.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_show_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
