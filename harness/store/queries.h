// What compare, list, show and the final table read. Nothing here writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/store/store.h"

namespace kvscope {

struct ArmRow {
  std::int64_t arm_id = 0;
  std::string arm_key;
  std::string sweep_uuid;
  std::string label;  // POLICY@BUDGET, then " question=hidden" if it is; for people
  std::string model;
  std::string policy;  // canonical
  std::string budget;  // "0.200" or "256tok"
  std::string prefill_mode;
  std::string position_mode;
  std::string question_visibility;
  std::string dtype;
  std::string kv_dtype;
  std::string backend;
  bool is_reference = false;
  std::string status;
  int n_ok = 0;
  int n_error = 0;
  int n_skipped = 0;
};

struct RunRow {
  std::int64_t run_id = 0;
  std::string run_uuid;
  std::string sweep_uuid;
  std::string status;
  double started_unix = 0.0;
  std::optional<double> finished_unix;
  std::string program_version;
  std::string host;
  std::string backend;  // Backend::description
  std::optional<DeviceMemory> device_memory = {};
  std::string argv_json;
  int n_arms = 0;
  int n_results = 0;  // rows this run wrote
};

// One metric of one arm on one data set.
struct ArmMetricRow {
  std::string task;
  std::string dataset;
  std::string dataset_key;
  std::string metric;
  std::string unit;
  std::string better;
  int n = 0;
  double mean = 0.0;
  std::optional<double>
      stderr_mean;  // √(variance / n), samples taken as independent; empty for n < 2
};

// Values of two arms on the same samples, in order of sample.
struct PairedValues {
  std::string task;
  std::string dataset;
  std::string dataset_key;
  std::string metric;
  std::string unit;
  std::string kind;
  std::string better;
  std::vector<std::string> clusters;
  std::vector<double> a;
  std::vector<double> b;
};

// One finished sample of one arm.
struct ResultRow {
  std::string task;
  std::string dataset;
  std::string sample_key;
  std::string cluster_key;
  std::string status;
  std::string error;
  std::string mode_run;
  std::string output_text;
  std::string gold_text;
  std::vector<std::pair<std::string, double>> metrics;
};

std::optional<std::string> newest_sweep(Store& store);
std::vector<ArmRow> list_arms(Store& store, const std::optional<std::string>& sweep_uuid = {});
std::vector<RunRow> list_runs(Store& store);  // newest first

// By row id ("12"), by the first characters of the arm's key (at least 4), or by "POLICY[@BUDGET]"
// with " question=hidden" behind it for arms that do not see the question, in the newest sweep that
// has it. Throws UsageError if none or several match, naming what could be meant.
ArmRow find_arm(Store& store, std::string_view selector);
// The same within one sweep.
ArmRow find_arm_of_sweep(Store& store, std::string_view selector, const std::string& sweep_uuid);
// Two arms to compare: names that several sweeps have are looked up in the newest sweep that has
// both, so that both saw the same samples; apart where no sweep has both. Where a name fits arms
// that see the question and arms that do not, the other name's visibility decides.
std::pair<ArmRow, ArmRow> find_arm_pair(Store& store, std::string_view a, std::string_view b);

std::vector<ArmMetricRow> arm_metrics(Store& store, std::int64_t arm_id);
// Every metric that both arms have on equal inputs; arms of different sweeps pair by data set,
// sample and input hash.
std::vector<PairedValues> paired_values(Store& store, std::int64_t a_arm, std::int64_t b_arm);
std::vector<ResultRow> arm_results(Store& store, std::int64_t arm_id);

}  // namespace kvscope
