// From a record back to what was run: the same sample and the same arm, or a refusal that says what
// differs.
#pragma once

#include <memory>
#include <string>

#include "harness/plan/arms.h"
#include "harness/store/recorded_run.h"
#include "harness/tasks/task.h"

namespace kvscope {

// What the sweep's options say about the model; the file itself is not recorded.
struct RecordedModelOptions {
  std::string dtype;
  std::string kv_dtype;
  std::string backend;
  bool beyond_context = false;
  std::string chat_template = {};  // as --chat-template said it
};
// Throws DataError for options that are not as a sweep writes them.
RecordedModelOptions recorded_model_options(const RecordedSample& recorded);

// Of the arm, from its label's parts. Throws UsageError for a plug-in's policy whose file is gone.
ArmPlan recorded_arm(const RecordedSample& recorded);

struct RebuiltSample {
  const TaskInfo* info = nullptr;
  std::unique_ptr<Task> task;
  std::size_t index = 0;  // among the data set's samples or windows
};
// Makes the data set again, from the recorded seeds and files. default_text: what stands for a text
// that was not named. Throws DataError where the sample is not in it or its tokens are others.
RebuiltSample rebuild_sample(const RecordedSample& recorded, const Tokenizer& tokenizer,
                             const std::filesystem::path& default_text);

// Throws DataError unless the arm on this model is the recorded one.
void require_same_arm(const RecordedSample& recorded, const ArmPlan& arm, const Model& model);

}  // namespace kvscope
