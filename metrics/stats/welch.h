// Welch's t (Biometrika 34, 1947) for two samples of unequal variance: what a comparison would say
// if it threw the pairing away. Printed beside the paired result, never used to decide.
#pragma once

#include <optional>
#include <span>

#include "metrics/stats/pair.h"

namespace kvscope {

struct Welch {
  double t = 0;  // of mean(b) - mean(a)
  double p_two_sided = 1;
  double df = 0;  // Welch-Satterthwaite
};

// Nothing below two pairs, and nothing where neither column varies.
std::optional<Welch> welch_unpaired(std::span<const Pair> pairs);

}  // namespace kvscope
