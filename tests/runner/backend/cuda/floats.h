// Values for tests of kernels.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace kvscope::cuda::testing {

// Normal, of deviation `scale`.
inline std::vector<float> random_floats(std::size_t n, float scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(generator);
  return values;
}

}  // namespace kvscope::cuda::testing
