#include "harness/plan/walk.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <set>

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

// Out of memory is a result too: first with one sample at a time, then as error rows.
std::optional<Outcomes> run_batch(const Walk& walk, const Task& task,
                                  std::span<const SampleWork> batch) {
  try {
    return task.run(walk.run, batch);
  } catch (const std::bad_alloc&) {
    // Counted with the error rows; a batch that fits sample by sample lost nothing.
  }
  Outcomes outcomes;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.size() > 1) {
      auto one = run_batch(walk, task, batch.subspan(i, 1));
      if (!one) return std::nullopt;
      outcomes.push_back(std::move(one->front()));
    } else {
      outcomes.emplace_back(batch[i].arms.size(), error_outcome("oom", "out of memory"));
    }
  }
  return outcomes;
}

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
  for (std::size_t first = 0; first < missing.size();) {
    if (walk.run.stop && walk.run.stop()) return false;
    const std::size_t size =
        std::min(planned.task->batch_size(missing[first].arms.size()), missing.size() - first);
    const std::span batch(missing.data() + first, size);
    progress.stage(std::string(planned.info->name) + ' ' +
                   std::to_string(batch.front().sample + 1) + " of " +
                   std::to_string(rows.sample_ids.size()));
    const auto outcomes = run_batch(walk, *planned.task, batch);
    if (!outcomes) return false;
    record_batch(walk, planned, rows, batch, *outcomes, progress);
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
