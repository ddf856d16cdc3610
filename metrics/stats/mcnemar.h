// Exact test of McNemar (Psychometrika 12, 1947): paired yes/no outcomes, of which only those that
// changed say anything.
#pragma once

#include <cstdint>

namespace kvscope {

struct McNemar {
  std::int64_t gained = 0;  // no under a, yes under b
  std::int64_t lost = 0;    // yes under a, no under b
  double p_two_sided = 1;
  double p_less = 1;  // small if b succeeds less often than a
};

// gained ~ Binomial(gained + lost, 1/2) under the null hypothesis; no mid-p. Nothing changed: both
// p are 1. The test takes the pairs for independent: with clusters it is too sure.
McNemar mcnemar_exact(std::int64_t gained, std::int64_t lost);

}  // namespace kvscope
