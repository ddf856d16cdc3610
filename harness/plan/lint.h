// Traps that make a comparison say something else than it seems to.
#pragma once

#include <string>
#include <vector>

#include "datasets/sample.h"
#include "harness/plan/arms.h"
#include "harness/store/store.h"
#include "harness/tasks/task.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// One line for people each. Of a data set, before anything is run: cells with one sample, no chat
// template, answers that the prompt does not hold (cut off?), a first answer token that is the same
// in every sample and therefore free, answers longer than max_new_tokens, prompts beyond the
// model's context (0: not known), the same input twice.
std::vector<std::string> lint_dataset(const Dataset& dataset, const Tokenizer& tokenizer,
                                      int context_length);

// Of what a database holds: data sets of one name that are not the same (other max_new_tokens,
// template or seed), and arms whose answers were cut off where the full cache's ended by
// themselves.
std::vector<std::string> lint_database(Store& store, const Tokenizer& tokenizer);

// Where nothing has to be evicted, nothing may change: every arm of `run` must give the full
// cache's answers on every sample, and a divergence of 0. One line for each arm that does not; arms
// that store keys and values otherwise are left out. Budgets must hold the prompts.
std::vector<std::string> lint_identity(const TaskRun& run, const Task& task);

}  // namespace kvscope
