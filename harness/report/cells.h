// Cells of a data set (one length, one turn of a dialogue): what a sweep's mean over all of them
// would hide, and whether the full cache is good enough there for anything to be seen.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/json.h"
#include "harness/store/store.h"
#include "metrics/stats/pair.h"

namespace kvscope {

struct CellValues {
  std::string cell;  // "length=1024 turn=2"; empty: the data set has one cell
  std::vector<double> values;

  double mean() const;
};

// Values of one metric of one arm by cell, in the order of the samples.
std::vector<CellValues> cell_values(Store& store, std::int64_t arm_id, std::string_view dataset_key,
                                    std::string_view metric);

// The full cache in one cell, held against its floor.
struct BaselineCell {
  std::string cell;
  std::string metric;
  int n = 0;
  double mean = 0.0;
  std::optional<Interval> wilson95;  // where all values are 0 or 1
  std::optional<double> no_context;  // mean without the text, where that was run
  std::optional<double> least;       // what the mean must reach; nothing: not known
  bool clears() const { return !least || mean >= *least; }
};

// Empty where the task has no such rule (perplexity, replay). recall 0.8, string_match_all 0.5,
// token_f1 0.1 and twice what the questions alone give.
std::vector<BaselineCell> baseline_cells(Store& store, std::int64_t full_arm_id,
                                         std::string_view dataset_key);

// The version of a data set whose samples are those of another one without their text.
std::string no_context_version(std::string_view dataset_key);

// One line each about cells that are too weak, or have one sample alone.
std::string cell_warnings(const std::vector<BaselineCell>& cells);
Json cells_json(const std::vector<BaselineCell>& cells);

}  // namespace kvscope
