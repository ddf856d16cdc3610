// kvscope dataset inspect: what a data set holds, without running anything.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_dataset_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
