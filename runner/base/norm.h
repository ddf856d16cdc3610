#pragma once

#include <cmath>
#include <span>

namespace kvscope {

// ‖x‖₂ in float32, summed in order: every place that scores by norms gets the same bits.
inline float norm(std::span<const float> x) {
  float sum = 0.0F;
  for (const float value : x) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace kvscope
