// `kvscope inspect`: what a model's files say, without its weights.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_inspect_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
