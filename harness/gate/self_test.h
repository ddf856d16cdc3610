// Does the gate cry wolf, and does it see what it says it sees? Tried on recorded pairs: nights are
// drawn from their clusters, and the gate decides each of them as it would a real one.
//
//   A/A     clusters drawn with replacement, each with a random sign: there is no difference. The
//   gate
//           must not say fail more often than alpha.
//   effect  the same, with the difference that the gate says it can see taken from every pair: it
//   must
//           say fail as often as its power.
//
// Both with margin 0, where fail is most likely; the effect is the detectable one of the population
// that nights are drawn from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/report/json.h"
#include "metrics/stats/gate_rule.h"

namespace kvscope {

struct SelfTest {
  std::int64_t pairs = 0;
  std::int64_t clusters = 0;
  int runs = 0;
  double alpha = 0;
  double planted_effect = 0;  // mean difference, + better, of the second kind
  int false_alarms = 0;
  int detections = 0;
  Interval false_alarm_band;  // 99 %, binomial, of counts
  Interval detection_band;
  bool alarms_as_stated() const;  // inside, or fewer
  bool power_as_stated() const;
};

// UsageError for fewer than two clusters, or where all differ by the same amount (bytes, mostly):
// nothing can be drawn.
SelfTest run_self_test(std::span<const Pair> recorded, double alpha, int runs, std::uint64_t seed);

}  // namespace kvscope
