#pragma once

#include <array>
#include <cmath>
#include <span>

namespace kvscope {

// a·b in float32 by eight interleaved partial sums: one fixed order that also vectorises, so that
// every place that scores by keys gets the same bits.
inline float dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t kLanes = 8;
  std::array<float, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t lane = 0; i < a.size(); ++i, ++lane) sums[lane] += a[i] * b[i];
  float sum = 0.0F;
  for (const float partial : sums) sum += partial;
  return sum;
}

// ‖x‖₂
inline float norm(std::span<const float> x) { return std::sqrt(dot(x, x)); }

}  // namespace kvscope
