// A task makes samples, lets the engine advance arms over them, and scores what comes back.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/sample.h"
#include "harness/plan/arms.h"
#include "harness/store/records.h"
#include "harness/tasks/probe_level.h"
#include "harness/tasks/task_spec.h"
#include "runner/engine/engine.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Samples whose single rebound events are kept beside what is counted of all.
struct TraceChoice {
  static constexpr int kMostEvents = 1000;
  bool all = false;
  std::vector<std::string> samples;  // keys
  int events = kMostEvents;          // of each result, the heaviest

  bool wants(std::string_view sample_key) const {
    return all || std::ranges::find(samples, sample_key) != samples.end();
  }
};

// Files a user names; empty: the task's generator, or UsageError where there is none.
struct TaskFiles {
  std::filesystem::path text;
  std::string corpus;  // a text that a Debian package has, instead of `text`
  std::filesystem::path haystack;
  std::filesystem::path qa;          // any format of datasets/questions/formats.cpp
  std::filesystem::path qa_prompts;  // the user's prompts instead of the format's
  std::filesystem::path qa_lengths;  // and answer lengths
  bool skip_bad_records = false;
  std::filesystem::path prompts;  // of replay
  int context = 1024;  // tokens of a perplexity window, unless the task's own key says otherwise
};

// One sample and the arms that still have to run on it. Where a comparison with the full cache
// needs it, the task runs `full` again although it is not listed.
struct SampleWork {
  std::size_t sample = 0;
  std::vector<std::size_t> arms;  // indices into TaskRun::arms, ascending
};

struct TaskRun {
  Engine& engine;
  const Tokenizer& tokenizer;
  std::span<const ArmPlan> arms;  // of each question visibility the first one is `full`
  ProbeOptions probes = {ProbeLevel::kFull};
  bool beyond_context = false;
  StopRequested stop;
  TraceChoice trace = {};
};

class Task {
 public:
  virtual ~Task() = default;
  virtual const Dataset& dataset() const = 0;
  // How many samples to give to one call of run(), so that weights are read for many rows and
  // memory stays bounded.
  virtual std::size_t batch_size(std::size_t n_arms) const = 0;
  // outcomes[i][j] belongs to work[i].arms[j]; nullopt if the run was asked to stop. Faults of one
  // arm on one sample are outcomes, not exceptions.
  virtual std::optional<std::vector<std::vector<SampleOutcome>>> run(
      const TaskRun& run, std::span<const SampleWork> work) const = 0;
  // The same questions without their text: what can be answered so is no evidence about a cache.
  // Null where there is no such thing.
  virtual std::unique_ptr<Task> without_context(const Tokenizer&) const { return nullptr; }
};

// Adds the task's metrics of one answer, cut as the sample says.
using AnswerScorer = void (*)(std::string_view answer, const Sample& sample,
                              SampleOutcome& outcome);

struct TaskInfo {
  std::string_view name;
  std::string_view summary;         // one sentence
  std::string_view primary_metric;  // what the final table shows first
  std::span<const TaskKey> keys;
  std::unique_ptr<Task> (*make)(const TaskSpec&, const TaskFiles&, const Tokenizer&);
  AnswerScorer score_answer = nullptr;  // of tasks with answers
};

std::span<const TaskInfo> task_infos();
const TaskInfo* find_task(std::string_view name);
std::vector<TaskSpec> parse_tasks(std::string_view text);  // UsageError

// Rows of the store.
std::vector<SampleRecord> sample_records(const Dataset& dataset);
DatasetRecord dataset_record(const Dataset& dataset, std::string_view task);

}  // namespace kvscope
