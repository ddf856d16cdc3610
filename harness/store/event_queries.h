// The heaviest rebound events of a store, or of a part of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/store/records.h"
#include "harness/store/store.h"

namespace kvscope {

struct EventRow {
  std::int64_t arm_id = 0;
  std::string arm_label;
  std::string sample_key;
  EventRecord record;
  std::optional<bool> answered;  // right or wrong, where the task has such a verdict
};

// Heaviest first. Answered from the index: the time grows with the number of arms and with `most`,
// not with the number of events. Nothing from files of older programs.
std::vector<EventRow> heaviest_events(Store& store, int most);
std::vector<EventRow> heaviest_events_of_arm(Store& store, std::int64_t arm_id, int most);
std::vector<EventRow> heaviest_events_of_sample(Store& store, std::int64_t arm_id,
                                                const std::string& sample_key, int most);

// Evidence survival of the samples of an arm that were answered right and wrong.
struct SurvivalByVerdict {
  std::string task;
  std::string dataset;
  int n_right = 0;
  int n_wrong = 0;
  double right = 0.0;  // mean survival at the end; void where n is 0
  double wrong = 0.0;
  std::vector<double> right_by_layer;  // [n_layers], empty where n is 0
  std::vector<double> wrong_by_layer;
};
std::vector<SurvivalByVerdict> survival_by_verdict(Store& store, std::int64_t arm_id);

}  // namespace kvscope
