// What a sweep found: every arm on every data set, paired with the full cache. Arms that see the
// question and arms that do not never stand in one table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/cells.h"
#include "harness/report/identity_notes.h"
#include "harness/report/json.h"
#include "harness/report/text_rates.h"
#include "harness/store/queries.h"
#include "metrics/stats/paired.h"

namespace kvscope {

struct SweepValue {
  std::string metric;
  std::string better;
  int n = 0;
  double mean = 0.0;
  std::optional<double> stderr_mean;
  std::optional<PairedT> to_full;  // arm minus full on the same samples; nothing for `full` itself
};

struct SweepRow {
  ArmRow arm;
  int n_ok = 0;  // of this data set
  int n_skipped = 0;
  int n_error = 0;
  std::string reason;  // of the first skipped or failed sample
  std::vector<SweepValue> values;
  std::vector<CellValues> cells;   // of the primary metric
  std::optional<TextRates> rates;  // of texts

  const SweepValue* find(std::string_view metric) const;
};

// One table: the arms of one question visibility on one data set.
struct SweepTask {
  std::string task;
  std::string dataset;
  std::string dataset_key;
  std::string primary_metric;
  std::string question_visibility;     // visible | hidden
  std::vector<SweepRow> rows;          // arms in order, `full` first
  std::vector<BaselineCell> baseline;  // the full cache, cell by cell, against its floor
  std::vector<IdentityNote> notes;     // about arms that did not do what was asked of them
  Json probe_plan = nullptr;           // probe_plan.h
};

std::vector<SweepTask> summarise_sweep(Store& store, const std::string& sweep_uuid);

// For people. The table of one task; what the sweep means in two sentences for each visibility.
std::string sweep_table(const SweepTask& task);
std::string sweep_sentences(const std::vector<SweepTask>& tasks);
Json sweep_json(const std::vector<SweepTask>& tasks);

// How good the full cache is, cell by cell, and what the questions alone give.
std::string floors_table(const std::vector<SweepTask>& tasks);

}  // namespace kvscope
