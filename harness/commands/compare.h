// kvscope compare: two arms of a database on the samples they share.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_compare_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
