// kvscope generate: one arm answers prompts.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_generate_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
