#include "harness/store/recorded_run.h"

#include <algorithm>

#include "harness/store/database.h"
#include "harness/store/statement.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

std::string joined(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMost ? text + ", …" : text;
}

std::string find_sweep(Store& store, std::string_view run) {
  const std::string file = "database " + store.path().string();
  if (run == "newest") {
    if (auto sweep = newest_sweep(store)) return *sweep;
    throw UsageError(file + ": holds no run yet");
  }
  std::vector<std::string> sweeps;
  std::vector<std::string> names;
  for (const RunRow& row : list_runs(store)) {
    const bool fits = row.run_uuid.starts_with(run) || row.sweep_uuid.starts_with(run);
    if (!fits) continue;
    names.push_back(row.run_uuid);
    if (std::ranges::find(sweeps, row.sweep_uuid) == sweeps.end()) sweeps.push_back(row.sweep_uuid);
  }
  if (sweeps.size() == 1 && !run.empty()) return sweeps.front();
  if (sweeps.empty()) {
    throw UsageError(file + ": no run '" + std::string(run) +
                     "'; `kvscope list runs` shows what is there, `newest` is the last one");
  }
  throw UsageError(file + ": '" + std::string(run) + "' could be the runs " + joined(names) +
                   "; write more of the id");
}

}  // namespace

RecordedSample find_recorded(Store& store, std::string_view run, std::string_view sample,
                             std::string_view arm) {
  RecordedSample found;
  found.sweep_uuid = find_sweep(store, run);
  Statement sweep(store.database(), "SELECT options,program_version FROM sweep WHERE sweep_uuid=?");
  sweep.bind(found.sweep_uuid).step();
  found.options_json = sweep.text(0);
  found.program_version = sweep.text(1);
  found.arm = find_arm_of_sweep(store, arm, found.sweep_uuid);

  Statement samples(store.database(),
                    "SELECT s.sample_key,s.input_sha256,d.task,d.name FROM sweep_dataset w "
                    "JOIN dataset d USING(dataset_id) JOIN sample s USING(dataset_id) "
                    "WHERE w.sweep_uuid=?1 AND substr(s.sample_key,1,length(?2))=?2 "
                    "ORDER BY s.sample_key<>?2, s.sample_id");
  samples.bind(found.sweep_uuid, sample);
  std::vector<std::string> keys;
  while (samples.step()) {
    if (keys.empty()) {
      found.sample_key = samples.text(0);
      found.input_sha256 = samples.text(1);
      found.task = samples.text(2);
      found.dataset = samples.text(3);
    }
    keys.push_back(samples.text(0));
  }
  const std::string file = "database " + store.path().string();
  if (keys.empty()) {
    throw UsageError(file + ": that run has no sample '" + std::string(sample) +
                     "'; `kvscope show ARM --json` names those that failed");
  }
  if (keys.size() > 1 && found.sample_key != sample) {
    throw UsageError(file + ": '" + std::string(sample) + "' could be the samples " + joined(keys));
  }
  for (ResultRow& row : arm_results(store, found.arm.arm_id)) {
    if (row.sample_key == found.sample_key && row.task == found.task) found.result = std::move(row);
  }
  return found;
}

}  // namespace kvscope
