// A store in a folder of its own, with one model, one data set and two arms.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/store/database.h"
#include "harness/store/statement.h"
#include "harness/store/store.h"

namespace kvscope::testing {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvscope_XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

// As a program of an older schema (1 to 4) left the file.
inline void make_older(Database& database, int version) {
  database.execute(
      "ALTER TABLE run DROP COLUMN process_peak_bytes;"
      "ALTER TABLE run DROP COLUMN page_pool_peak_bytes; DROP TABLE sketch; DROP TABLE kv_kind;");
  if (version < 4) {
    database.execute(
        "DROP VIEW v_rebound_event; DROP TABLE rebound_event; DROP TABLE evidence_trace; "
        "DELETE FROM metric WHERE name LIKE 'evidence_survival%';");
  }
  if (version < 3) {
    std::string drop;
    std::string make;
    {
      // A column that a view names cannot be dropped.
      Statement views(database, "SELECT name,sql FROM sqlite_master WHERE type='view'");
      while (views.step()) {
        drop += "DROP VIEW " + views.text(0) + ";";
        make += views.text(1) + ";";
      }
    }
    const std::string backend = " m.backend,";
    make.erase(make.find(backend), backend.size());
    database.execute(drop +
                     "ALTER TABLE model DROP COLUMN backend;"
                     "ALTER TABLE run DROP COLUMN device_allocated_bytes;"
                     "ALTER TABLE run DROP COLUMN device_peak_bytes;"
                     "ALTER TABLE run DROP COLUMN device_driver_delta_bytes;" +
                     make);
  }
  if (version < 2) database.execute("DROP TABLE kept_sets;");
  database.execute("PRAGMA user_version=" + std::to_string(version));
}

inline ModelRecord tiny_model_record() {
  return {.key = "m1",
          .name = "tiny",
          .weights_sha256 = "w",
          .dtype = "f32",
          .kv_dtype = "f32",
          .n_layers = 2,
          .n_heads = 4,
          .n_kv_heads = 2,
          .head_dim = 8,
          .context_length = 512};
}

inline ArmRecord arm_record(const std::string& policy, int permille) {
  ArmRecord arm;
  arm.key = "key-" + policy + "-" + std::to_string(permille);
  arm.model_key = "m1";
  arm.policy = {.canonical = policy, .name = policy, .params = {}};
  arm.budget_permille = permille;
  arm.prefill_mode = "monolithic";
  arm.position_mode = "absolute";
  arm.question_visibility = "visible";
  arm.dtype = arm.kv_dtype = "f32";
  arm.is_reference = policy == "full";
  return arm;
}

inline std::vector<SampleRecord> sample_records(int n, int per_cluster) {
  std::vector<SampleRecord> samples;
  for (int i = 0; i < n; ++i) {
    samples.push_back({.sample_key = "s" + std::to_string(i),
                       .input_sha256 = "h" + std::to_string(i),
                       .cluster_key = "c" + std::to_string(i / per_cluster),
                       .n_prompt_tokens = 10,
                       .tags = {{"length", "10"}}});
  }
  return samples;
}

inline SampleOutcome ok_outcome(double nll) {
  SampleOutcome o;
  o.mode_run = "monolithic";
  o.metrics = {{"gold_nll_nats", nll}, {"recall", nll < 1.0 ? 1.0 : 0.0}};
  o.has_output = true;
  o.output_text = "42";
  o.output_ids = {4, 2};
  o.gold_text = "42";
  o.trace_first_position = 5;
  o.trace_nll_nats = {0.5F, 1.5F};
  o.trace_kl_nats = {0.0F, 0.25F};
  o.ledger.prefill_peak = {100, 128, 7};
  o.ledger.decode_peak = {50, 64, 3};
  o.n_prompt_tokens = 10;
  o.n_decode_steps = 2;
  o.fitted_params = {{"recent", "3"}};
  return o;
}

struct OpenStore {
  explicit OpenStore(const std::filesystem::path& file, int n_samples = 4, int per_cluster = 1)
      : store(Store::open(file, StoreAccess::kCreate)) {
    store.put_model(tiny_model_record());
    const auto samples = sample_records(n_samples, per_cluster);
    dataset = store.put_dataset(
        {.key = "d1", .task = "needle", .name = "needle", .version = "1", .n_samples = n_samples},
        samples);
    if (const auto state = store.find_sweep("plan", "v1")) {
      sweep = state->uuid;
    } else {
      sweep = "sweep-1";
      store.begin_sweep(
          {.uuid = sweep, .plan_hash = "plan", .program_version = "v1", .options_json = "{}"});
    }
    store.add_sweep_dataset(sweep, dataset);
    full = store.put_arm(sweep, arm_record("full", 1000));
    other = store.put_arm(sweep, arm_record("h2o", 200));
  }
  std::int64_t begin(const std::string& uuid) {
    return store.begin_run({.uuid = uuid,
                            .sweep_uuid = sweep,
                            .program_version = "v1",
                            .git_sha = "abc",
                            .git_dirty = false,
                            .host = "here",
                            .backend = "cpu",
                            .argv_json = "[]"});
  }
  std::int64_t sample(int i) { return store.sample_id(dataset, "s" + std::to_string(i)); }

  Store store;
  std::int64_t dataset = 0;
  std::string sweep;
  std::int64_t full = 0;
  std::int64_t other = 0;
};

}  // namespace kvscope::testing
