// One table of all tasks; adding one touches its file and one line here.
#include <array>
#include <charconv>

#include "harness/tasks/dialogue.h"
#include "harness/tasks/kv_retrieval.h"
#include "harness/tasks/needle.h"
#include "harness/tasks/niah.h"
#include "harness/tasks/passkey.h"
#include "harness/tasks/perplexity.h"
#include "harness/tasks/qa.h"
#include "harness/tasks/replay.h"
#include "harness/tasks/ruler.h"
#include "harness/tasks/task.h"

namespace kvscope {
namespace {

// All digits, whatever the locale.
std::string number_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

std::span<const TaskInfo> task_infos() {
  static const TaskInfo kTasks[] = {kPerplexityTask, kNeedleTask, kPasskeyTask,
                                    kNiahTask,       kRulerTask,  kKvRetrievalTask,
                                    kDialogueTask,   kQaTask,     kReplayTask};
  return kTasks;
}

const TaskInfo* find_task(std::string_view name) {
  for (const TaskInfo& task : task_infos()) {
    if (task.name == name) return &task;
  }
  return nullptr;
}

std::vector<TaskSpec> parse_tasks(std::string_view text) {
  std::vector<TaskSyntax> syntax;
  for (const TaskInfo& task : task_infos()) syntax.push_back({task.name, task.keys});
  return parse_task_list(text, syntax);
}

std::vector<SampleRecord> sample_records(const Dataset& dataset) {
  std::vector<SampleRecord> records;
  for (const Sample& s : dataset.samples) {
    records.push_back(
        {s.key, s.input_sha256, s.cluster_key, static_cast<int>(s.prompt_ids.size()), s.tags});
  }
  for (const TextWindow& w : dataset.windows) {
    const auto scored = static_cast<double>(w.ids.size()) - w.first_scored;
    records.push_back({w.key,
                       w.input_sha256,
                       w.cluster_key,
                       static_cast<int>(w.ids.size() / 2),
                       {{"scored_tokens", number_text(scored)},
                        {"scored_words", number_text(w.scored_words)},
                        {"scored_bytes", number_text(w.scored_bytes)}}});
  }
  return records;
}

DatasetRecord dataset_record(const Dataset& dataset, std::string_view task) {
  return {dataset.key(), std::string(task), dataset.name, dataset.version,
          static_cast<int>(dataset.samples.size() + dataset.windows.size())};
}

}  // namespace kvscope
