// What a sampling plan knows of its own means: the steps that they come from, and the rows after
// alarms, which are in none of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/stats/running_stat.h"

namespace kvscope {

enum SampledMetric : std::uint8_t { kReboundMassSteps, kHitAt32Steps, kHitAtP90Steps };
inline constexpr int kSampledMetrics = 3;

struct SampledFacts {
  // [metric][sampled steps with ghosts] mean over the plan's layers and heads. Rows of one step are
  // not independent: steps are the clusters of a mean's interval.
  std::array<std::vector<double>, kSampledMetrics> step_means;
  RunningStat burst_rebound_mass;  // of rows after an alarm
  std::int64_t n_bursts = 0;

  // Of another sequence.
  void merge(const SampledFacts& other);
  // Half of the 95 % interval of a metric's mean, Student's t over steps; nothing below two steps.
  std::optional<double> half_interval(SampledMetric metric) const;
};

}  // namespace kvscope
