// kvscope sweep: arms × tasks on one model, into a database.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_sweep_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
