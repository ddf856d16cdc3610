#include "runner/model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvscope {

std::vector<float> rope_frequencies(int head_dim, int rotary_dim, double theta) {
  std::vector<float> frequency(std::size_t(head_dim / 2), 0.0F);
  for (int i = 0; i < rotary_dim / 2; ++i)
    frequency[std::size_t(i)] = float(1.0 / std::pow(theta, 2.0 * i / rotary_dim));
  return frequency;
}

void scale_linear(std::vector<float>& frequency, double factor) {
  for (float& f : frequency) f /= float(factor);
}

// In float32 step by step: the factors that converters write into GGUF files come out the same.
std::vector<float> llama3_factors(std::span<const float> frequency, const RopeScaling& scaling) {
  const auto context = float(scaling.original_context);
  const auto low = float(scaling.low_frequency_factor);
  const auto high = float(scaling.high_frequency_factor);
  const auto factor = float(scaling.factor);
  std::vector<float> factors;
  for (const float f : frequency) {
    const float wavelength = float(2.0 * std::numbers::pi) / f;
    if (wavelength < context / high) {
      factors.push_back(1.0F);
    } else if (wavelength > context / low) {
      factors.push_back(factor);
    } else {
      const float smooth = (context / wavelength - low) / (high - low);
      factors.push_back(1.0F / ((1.0F - smooth) / factor + smooth));
    }
  }
  return factors;
}

void divide(std::vector<float>& frequency, std::span<const float> factors) {
  for (std::size_t i = 0; i < std::min(frequency.size(), factors.size()); ++i)
    frequency[i] /= factors[i];
}

void scale_yarn(std::vector<float>& frequency, int rotary_dim, double theta,
                const RopeScaling& scaling) {
  // The pair that turns `turns` times within the original context.
  const auto pair_of = [&](double turns) {
    return rotary_dim * std::log(scaling.original_context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(theta));
  };
  double first = pair_of(scaling.beta_fast);
  double last = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, double(rotary_dim - 1));
  if (first == last) last += 0.001;
  for (int i = 0; i < rotary_dim / 2; ++i) {
    const float ramp = std::clamp(float((i - first) / (last - first)), 0.0F, 1.0F);
    float& f = frequency[std::size_t(i)];
    f = f / float(scaling.factor) * ramp + f * (1.0F - ramp);
  }
}

double yarn_magnitude(double factor) { return factor <= 1.0 ? 1.0 : 0.1 * std::log(factor) + 1.0; }

}  // namespace kvscope
