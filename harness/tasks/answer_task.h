// Tasks whose samples are prompts with a short answer (needle, qa).
#pragma once

#include <functional>
#include <string_view>

#include "harness/tasks/task.h"

namespace kvscope {

// Adds the task's metrics of one answer, cut as the sample says.
using AnswerScorer =
    std::function<void(std::string_view answer, const Sample& sample, SampleOutcome& outcome)>;

std::unique_ptr<Task> make_answer_task(Dataset dataset, AnswerScorer scorer);

}  // namespace kvscope
