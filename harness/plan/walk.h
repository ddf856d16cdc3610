// Walks the plan: for each sample, what is still missing is computed for all arms together and
// recorded at once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "harness/export/live_metrics.h"
#include "harness/report/progress.h"
#include "harness/store/store.h"
#include "harness/tasks/task.h"

namespace kvscope {

struct PlannedTask {
  TaskSpec spec;
  const TaskInfo* info = nullptr;
  std::unique_ptr<Task> task;
};

struct Walk {
  Store& store;
  std::int64_t run_id;
  std::span<const std::int64_t> arm_ids;  // of TaskRun::arms
  TaskRun run;
  LiveMetrics& live;
  std::string model_name;         // label of the metrics
  std::int64_t device_bytes = 0;  // that the device of the engine's backend has, if it has one
};

ArmLabels metric_labels(const std::string& model_name, const ArmPlan& arm);

struct WalkSize {
  std::int64_t planned = 0;   // (arm, sample) pairs
  std::int64_t finished = 0;  // of them, in the store already
};
WalkSize walk_size(Store& store, std::span<const std::int64_t> arm_ids,
                   std::span<const PlannedTask> tasks);

// False if it was asked to stop; everything computed until then is in the store. Store errors pass
// through.
bool walk(const Walk& walk, std::span<const PlannedTask> tasks, Progress& progress);

}  // namespace kvscope
