// Tasks whose samples are prompts with a short answer (needle, qa).
#pragma once

#include <functional>
#include <string_view>

#include "harness/tasks/task.h"

namespace kvscope {

// Adds the task's metrics of one answer, cut as the sample says.
using AnswerScorer = void (*)(std::string_view answer, const Sample& sample,
                              SampleOutcome& outcome);

// compare_answers: how far the answer is the full cache's own, word for word, is a metric too.
std::unique_ptr<Task> make_answer_task(Dataset dataset, AnswerScorer scorer,
                                       bool compare_answers = false);

}  // namespace kvscope
