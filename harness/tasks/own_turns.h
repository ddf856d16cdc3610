// Dialogues in which an arm's own answers stand in its cache when the next question comes.
#pragma once

#include "datasets/dialogue/dialogue.h"
#include "harness/tasks/answer_task.h"

namespace kvscope {

std::unique_ptr<Task> make_own_turns_task(Dialogues dialogues, AnswerScorer scorer);

}  // namespace kvscope
