// kvscope trace record: one full run, kept for replays.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_trace_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
