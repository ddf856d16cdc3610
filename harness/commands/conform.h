// kvscope conform: are the policies what they say they are?
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_conform_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
