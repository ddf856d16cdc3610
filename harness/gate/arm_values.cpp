#include "harness/gate/arm_values.h"

#include <algorithm>

#include "harness/store/database.h"
#include "harness/store/statement.h"

namespace kvscope {

std::vector<ArmValues> arm_values(Store& store, std::int64_t arm_id, const std::string& task,
                                  const std::string& metric) {
  Statement s(store.database(),
              "SELECT d.task,d.name,d.dataset_key,m.name,m.unit,m.better,x.sample_key,"
              "x.input_sha256,x.cluster_key,v.value FROM sample_metric v "
              "JOIN metric m USING(metric_id) JOIN sample x USING(sample_id) "
              "JOIN dataset d USING(dataset_id) WHERE v.arm_id=?1 AND (?2='' OR d.task=?2) "
              "AND (?3='' OR m.name=?3) ORDER BY d.dataset_id,m.metric_id,x.sample_key");
  s.bind(arm_id, task, metric);
  std::vector<ArmValues> sets;
  while (s.step()) {
    if (sets.empty() || sets.back().dataset_key != s.text(2) || sets.back().task != s.text(0) ||
        sets.back().metric != s.text(3)) {
      sets.push_back({s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), {}});
    }
    sets.back().values.push_back({s.text(6), s.text(7), s.text(8), s.real(9)});
  }
  return sets;
}

JoinedValues join_values(const ArmValues& a, const ArmValues& b) {
  JoinedValues joined;
  auto theirs = b.values.begin();
  for (const ArmValue& ours : a.values) {
    theirs = std::find_if(theirs, b.values.end(),
                          [&](const ArmValue& v) { return v.sample_key >= ours.sample_key; });
    if (theirs == b.values.end()) break;
    if (theirs->sample_key != ours.sample_key) continue;
    if (theirs->input_sha256 != ours.input_sha256) {
      ++joined.other_inputs;
    } else {
      joined.pairs.push_back({ours.cluster, ours.value, theirs->value});
    }
  }
  return joined;
}

std::vector<ArmRow> earlier_arms(Store& store, const ArmRow& arm) {
  // list_arms() is ordered by sweep, newest first.
  std::vector<ArmRow> arms;
  bool older = false;
  for (const ArmRow& other : list_arms(store)) {
    if (other.sweep_uuid == arm.sweep_uuid) {
      older = true;
    } else if (older && other.arm_key == arm.arm_key) {
      arms.push_back(other);
    }
  }
  return arms;
}

}  // namespace kvscope
