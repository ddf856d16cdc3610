// kvscope stats: paired, clustered statistics of a CSV file.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_stats_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
