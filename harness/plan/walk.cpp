#include "harness/plan/walk.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "runner/base/out_of_memory.h"

namespace kvscope {
namespace {

struct TaskRows {
  std::vector<std::int64_t> sample_ids;              // by index in the data set
  std::vector<std::set<std::int64_t>> finished_ids;  // by arm
};

TaskRows task_rows(Store& store, std::span<const std::int64_t> arm_ids,
                   const PlannedTask& planned) {
  const Dataset& dataset = planned.task->dataset();
  const auto records = sample_records(dataset);
  const std::int64_t dataset_id =
      store.put_dataset(dataset_record(dataset, planned.info->name), records);
  TaskRows rows;
  for (const SampleRecord& record : records) {
    rows.sample_ids.push_back(store.sample_id(dataset_id, record.sample_key));
  }
  for (const std::int64_t arm : arm_ids) rows.finished_ids.push_back(store.finished_samples(arm));
  return rows;
}

// Samples with something left to do, in order.
std::vector<SampleWork> missing_work(const TaskRows& rows) {
  std::vector<SampleWork> missing;
  for (std::size_t s = 0; s < rows.sample_ids.size(); ++s) {
    SampleWork work{s, {}};
    for (std::size_t a = 0; a < rows.finished_ids.size(); ++a) {
      if (!rows.finished_ids[a].contains(rows.sample_ids[s])) work.arms.push_back(a);
    }
    if (!work.arms.empty()) missing.push_back(std::move(work));
  }
  return missing;
}

ArmLabels labels_of(const Walk& walk, std::size_t arm) {
  return metric_labels(walk.model_name, walk.run.arms[arm]);
}

using Outcomes = std::vector<std::vector<SampleOutcome>>;

// Runs samples on as many arms together as fit. Out of memory is a result too: first with one
// sample at a time, then with half of its arms, and what does not fit alone (beside the full arm
// that it is compared with) is an error row. An arm's numbers do not depend on the arms beside it.
class FittingRuns {
 public:
  FittingRuns(const Walk& walk, const Task& task) : walk_(walk), task_(task) {}

  // Nothing if it was asked to stop.
  std::optional<Outcomes> run(std::span<const SampleWork> batch) {
    std::string shortage;
    const bool too_many = std::ranges::any_of(
        batch, [&](const SampleWork& work) { return work.arms.size() > most_arms_; });
    if (!too_many) {
      try {
        return task_.run(walk_.run, batch);
      } catch (const std::bad_alloc& error) {
        shortage = out_of_memory_text(error);
        walk_.run.engine.release_memory();
      }
    }
    if (batch.size() > 1) return each_alone(batch);
    const SampleWork& work = batch.front();
    if (work.arms.size() == 1) return Outcomes{{error_outcome("oom", shortage)}};
    return in_halves(work);
  }

 private:
  std::optional<Outcomes> each_alone(std::span<const SampleWork> batch) {
    Outcomes outcomes;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      auto one = run(batch.subspan(i, 1));
      if (!one) return std::nullopt;
      outcomes.push_back(std::move(one->front()));
    }
    return outcomes;
  }

  std::optional<Outcomes> in_halves(const SampleWork& work) {
    const std::size_t half = (work.arms.size() + 1) / 2;
    const std::span<const std::size_t> arms(work.arms);
    Outcomes outcomes(1);
    bool all_fit = true;
    for (const auto part : {arms.first(half), arms.subspan(half)}) {
      const SampleWork some{work.sample, {part.begin(), part.end()}};
      auto done = run(std::span(&some, 1));
      if (!done) return std::nullopt;
      for (SampleOutcome& outcome : done->front()) {
        all_fit = all_fit && outcome.error_kind != "oom";
        outcomes.front().push_back(std::move(outcome));
      }
    }
    // Later samples need not fail first. Where a single arm was too large, the others may well fit
    // together.
    if (all_fit) most_arms_ = std::min(most_arms_, half);
    return outcomes;
  }

  const Walk& walk_;
  const Task& task_;
  std::size_t most_arms_ = std::numeric_limits<std::size_t>::max();  // that were seen to fit
};

// The database with its write-ahead log, in bytes.
std::int64_t store_bytes(const Store& store) {
  std::int64_t total = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::filesystem::path file = store.path();
    std::error_code absent;
    const auto bytes = std::filesystem::file_size(file += suffix, absent);
    if (!absent) total += static_cast<std::int64_t>(bytes);
  }
  return total;
}

void record_batch(const Walk& walk, const PlannedTask& planned, const TaskRows& rows,
                  std::span<const SampleWork> batch, const Outcomes& outcomes, Progress& progress) {
  const std::string_view dataset = planned.task->dataset().name;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::size_t j = 0; j < batch[i].arms.size(); ++j) {
      const std::size_t arm = batch[i].arms[j];
      const SampleOutcome outcome = refuse_nonfinite(outcomes[i][j]);
      const auto start = std::chrono::steady_clock::now();
      walk.store.record(walk.run_id, walk.arm_ids[arm], rows.sample_ids[batch[i].sample], outcome);
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      walk.live.committed(elapsed.count(), store_bytes(walk.store));
      walk.live.sample_done(labels_of(walk, arm), dataset, outcome);
      progress.advance();
    }
  }
}

bool walk_task(const Walk& walk, const PlannedTask& planned, Progress& progress) {
  const TaskRows rows = task_rows(walk.store, walk.arm_ids, planned);
  for (std::size_t a = 0; a < walk.arm_ids.size(); ++a) {
    walk.live.planned(labels_of(walk, a), planned.task->dataset().name,
                      static_cast<std::int64_t>(rows.sample_ids.size()));
  }
  const std::vector<SampleWork> missing = missing_work(rows);
  FittingRuns runs(walk, *planned.task);
  for (std::size_t first = 0; first < missing.size();) {
    if (walk.run.stop && walk.run.stop()) return false;
    const std::size_t size =
        std::min(planned.task->batch_size(missing[first].arms.size()), missing.size() - first);
    const std::span batch(missing.data() + first, size);
    progress.stage(std::string(planned.info->name) + ' ' +
                   std::to_string(batch.front().sample + 1) + " of " +
                   std::to_string(rows.sample_ids.size()));
    const auto outcomes = runs.run(batch);
    if (!outcomes) return false;
    record_batch(walk, planned, rows, batch, *outcomes, progress);
    if (const auto memory = walk.run.engine.backend().device_memory())
      walk.live.device_memory(*memory, walk.device_bytes);
    first += size;
  }
  return true;
}

}  // namespace

ArmLabels metric_labels(const std::string& model_name, const ArmPlan& arm) {
  return {model_name, arm.policy.canonical, arm.budget.label(),
          arm.question == QuestionVisibility::kHidden};
}

WalkSize walk_size(Store& store, std::span<const std::int64_t> arm_ids,
                   std::span<const PlannedTask> tasks) {
  WalkSize size;
  for (const PlannedTask& planned : tasks) {
    const TaskRows rows = task_rows(store, arm_ids, planned);
    size.planned += static_cast<std::int64_t>(rows.sample_ids.size() * arm_ids.size());
    for (const SampleWork& work : missing_work(rows)) {
      size.finished -= static_cast<std::int64_t>(work.arms.size());
    }
  }
  size.finished += size.planned;
  return size;
}

bool walk(const Walk& walk, std::span<const PlannedTask> tasks, Progress& progress) {
  for (const PlannedTask& planned : tasks) {
    if (!walk_task(walk, planned, progress)) return false;
  }
  return true;
}

}  // namespace kvscope
