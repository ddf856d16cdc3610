// kvscope run: one arm beside the full cache; a sweep of two.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_run_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
