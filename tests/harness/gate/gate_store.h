// Nights in a store: each is a sweep of its own with full and h2o on samples of its own.
#pragma once

#include <functional>
#include <string>

#include "runner/base/splitmix.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope::testing {

// gold_nll_nats of (arm is h2o, sample).
using Values = std::function<double(bool is_h2o, int sample)>;

// data: name of the data set; nights with the same one have the same samples.
inline void add_night(Store& store, const std::string& uuid, const std::string& data, int n,
                      const Values& values, int n_errors = 0) {
  store.put_model(tiny_model_record());
  const std::int64_t dataset = store.put_dataset(
      {.key = data, .task = "needle", .name = "needle", .version = "1", .n_samples = n},
      sample_records(n, 2));
  store.begin_sweep(
      {.uuid = uuid, .plan_hash = uuid, .program_version = "v1", .options_json = "{}"});
  store.add_sweep_dataset(uuid, dataset);
  const std::int64_t full = store.put_arm(uuid, arm_record("full", 1000));
  const std::int64_t h2o = store.put_arm(uuid, arm_record("h2o", 200));
  const std::int64_t run = store.begin_run({.uuid = "run-" + uuid,
                                            .sweep_uuid = uuid,
                                            .program_version = "v1",
                                            .git_sha = "abc",
                                            .git_dirty = false,
                                            .host = "here",
                                            .backend = "cpu",
                                            .argv_json = "[]"});
  for (int i = 0; i < n; ++i) {
    const std::int64_t sample =
        store.sample_id(dataset, std::string("s").append(std::to_string(i)));
    store.record(run, full, sample, ok_outcome(values(false, i)));
    if (i < n_errors) {
      store.record(run, h2o, sample, error_outcome("oom", "no memory"));
    } else {
      store.record(run, h2o, sample, ok_outcome(values(true, i)));
    }
  }
  store.end_run(run, RunStatus::kFinished);
}

// In [-1/2, 1/2), the same everywhere.
inline double noise(int night, int sample) {
  return double(smix(std::uint64_t(night) * 1000 + std::uint64_t(sample)) >> 11) * 0x1p-53 - 0.5;
}

}  // namespace kvscope::testing
