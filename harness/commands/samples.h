#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_samples_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
