// Interval of a proportion after Wilson (JASA 22, 1927): inside [0, 1] and sensible at 0 and at 1,
// unlike p ± 2 se.
#pragma once

#include <cstdint>
#include <optional>

#include "metrics/stats/pair.h"

namespace kvscope {

// 95 %, two-sided, no continuity correction, trials taken for independent. Nothing for trials == 0.
std::optional<Interval> wilson95(std::int64_t successes, std::int64_t trials);

}  // namespace kvscope
