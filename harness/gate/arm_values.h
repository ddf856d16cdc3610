// Values of arms, sample by sample, for checks that pair across sweeps and databases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/store/queries.h"
#include "metrics/stats/pair.h"

namespace kvscope {

struct ArmValue {
  std::string sample_key;
  std::string input_sha256;
  std::string cluster;
  double value = 0;
};

// One arm's values of a metric on one data set, in order of sample_key.
struct ArmValues {
  std::string task;
  std::string dataset;
  std::string dataset_key;
  std::string metric;
  std::string unit;
  std::string better;
  std::vector<ArmValue> values;
};

// task, metric: only of these; empty: of all.
std::vector<ArmValues> arm_values(Store& store, std::int64_t arm_id, const std::string& task,
                                  const std::string& metric);

struct JoinedValues {
  std::vector<Pair> pairs;
  int other_inputs = 0;  // samples of one key whose input differs: nothing may be said about them
};
// Pairs by sample_key; samples that only one of the two has are left out.
JoinedValues join_values(const ArmValues& a, const ArmValues& b);

// The arm of the same key in other sweeps of this database, newest first.
std::vector<ArmRow> earlier_arms(Store& store, const ArmRow& arm);

}  // namespace kvscope
