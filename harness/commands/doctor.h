// kvscope doctor: what this machine is, what it can do at most, and how near the engine comes.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_doctor_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
