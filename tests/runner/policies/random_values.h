// Seeded random scores, keys and values for the tests of score functions.
#pragma once

#include <vector>

#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {

inline std::vector<float> random_values(Random& random, std::size_t n, double low, double high) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(low + (high - low) * random.uniform());
  return values;
}

// Multiples of 1/8: ties are frequent.
inline std::vector<float> coarse_values(Random& random, std::size_t n) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.between(0, 8)) / 8.0F;
  return values;
}

}  // namespace kvscope::testing
