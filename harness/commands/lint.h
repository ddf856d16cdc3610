#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_lint_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
