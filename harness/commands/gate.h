// kvscope gate: is an arm worse than its baseline? Pass, fail, inconclusive or error, as exit
// status and in the forms that CI systems read.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_gate_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
