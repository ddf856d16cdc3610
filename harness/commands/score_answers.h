// kvscope score-answers: the scores of answers that anybody's program gave.
#pragma once

#include "harness/commands/common.h"

namespace kvscope {

void add_score_answers_command(CLI::App& app, CommandContext& context);

}  // namespace kvscope
