// kvscope score: one arm over one given text, token by token (NLL, residents, probes).
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_score_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
