// kvscope export: results for other programs.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_export_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
