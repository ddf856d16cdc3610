// Tasks whose samples are prompts with a short answer (needle, qa).
#pragma once

#include "harness/tasks/task.h"

namespace kvscope {

// compare_answers: how far the answer is the full cache's own, word for word, is a metric too.
std::unique_ptr<Task> make_answer_task(Dataset dataset, AnswerScorer scorer,
                                       bool compare_answers = false);

}  // namespace kvscope
