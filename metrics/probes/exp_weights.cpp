#include "metrics/probes/exp_weights.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kvscope {
namespace {

// Independent lanes, combined in a fixed order: vectorises without letting the compiler reorder
// sums.
constexpr std::size_t kLanes = 16;

// e^x for -88 <= x <= 0: x = n ln 2 + r with |r| <= ln 2 / 2, Taylor to degree 7 for e^r. No
// branches, so that it vectorises. At -88 n is -127, whose power of two has the bits of 0.
inline float exp_in_range(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // 9 bits of mantissa: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRoundToInteger =
      12582912.0F;  // 1.5 * 2^23: leaves the rounded sum in the low bits
  const float shifted = x * kLog2E + kRoundToInteger;
  const float n = shifted - kRoundToInteger;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * (r * r) + r + 1.0F;
  const std::uint32_t two_to_n = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  return p * std::bit_cast<float>(two_to_n);
}

}  // namespace

double ExpSum::lse() const { return double(largest_logit) + std::log(sum); }

float largest(std::span<const float> values) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  std::array<float, kLanes> lanes;
  lanes.fill(kLowest);
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  float result = kLowest;
  for (; i < values.size(); ++i) result = values[i] > result ? values[i] : result;
  for (const float lane : lanes) result = lane > result ? lane : result;
  return result;
}

void exp_below(std::span<const float> logits, float shift, std::span<float> out) {
  const std::size_t n = logits.size();
  // Two loops: GCC makes a branch of a clamp that a long computation follows, and then does not
  // vectorise.
  for (std::size_t i = 0; i < n; ++i) {
    const float x = logits[i] - shift;
    out[i] = x < -88.0F ? -88.0F : x;
  }
  for (std::size_t i = 0; i < n; ++i) out[i] = exp_in_range(out[i]);
}

ExpSum exp_weights(std::span<const float> logits, std::span<float> weights) {
  ExpSum result{.largest_logit = largest(logits)};
  exp_below(logits, result.largest_logit, weights);

  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += double(weights[i + lane]);
  }
  for (; i < logits.size(); ++i) lanes[0] += double(weights[i]);
  for (const double lane : lanes) result.sum += lane;
  return result;
}

}  // namespace kvscope
