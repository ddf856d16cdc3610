// kvscope tokenize: token ids of texts, special tokens recognised.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_tokenize_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
