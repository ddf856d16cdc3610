#include "metrics/probes/ghost_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/probes/rebound_mass.h"

namespace kvscope {

double int8_logit_bound(std::span<const float> query, float scale) {
  double norm1 = 0;
  for (const float q : query) norm1 += std::abs(double(q));
  return norm1 * double(scale) / (2 * std::sqrt(double(query.size())));
}

double int8_weight_factor(std::span<const float> query, float scale) {
  return std::exp(int8_logit_bound(query, scale));
}

double box_logit_bound(std::span<const float> query, std::span<const float> low,
                       std::span<const float> high) {
  double sum = 0;
  for (std::size_t i = 0; i < query.size(); ++i) {
    const auto q = double(query[i]);
    sum += std::max(q * double(low[i]), q * double(high[i]));
  }
  return sum / std::sqrt(double(query.size()));
}

double rebound_upper_bound(std::span<const double> logit_bounds,
                           std::span<const std::int32_t> n_tokens, double lse_visible) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  double largest = kNothing;
  for (const double bound : logit_bounds) largest = std::max(largest, bound);
  if (largest == kNothing) return 0;
  double sum = 0;  // relative to the largest, so that large logits do not overflow
  for (std::size_t page = 0; page < logit_bounds.size(); ++page) {
    sum += double(n_tokens[page]) * std::exp(logit_bounds[page] - largest);
  }
  return rebound_mass(largest + std::log(sum), lse_visible);
}

}  // namespace kvscope
