// Tasks whose samples are prompts with a short answer (needle, qa).
#pragma once

#include "harness/tasks/task.h"

namespace kvscope {

std::unique_ptr<Task> make_answer_task(Dataset dataset, AnswerScorer scorer);

}  // namespace kvscope
