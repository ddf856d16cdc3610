#include "metrics/stats/running_stat.h"

#include <algorithm>
#include <cmath>

namespace kvscope {

void RunningStat::add(double value) {
  if (!std::isfinite(value)) {
    ++nonfinite;
    return;
  }
  min = n == 0 ? value : std::min(min, value);
  max = n == 0 ? value : std::max(max, value);
  ++n;
  const double delta = value - mean;
  mean += delta / double(n);
  m2 += delta * (value - mean);
}

void RunningStat::merge(const RunningStat& other) {
  nonfinite += other.nonfinite;
  if (other.n == 0) return;
  if (n == 0) {
    const std::int64_t all_nonfinite = nonfinite;
    *this = other;
    nonfinite = all_nonfinite;
    return;
  }
  const double total = double(n + other.n);
  const double delta = other.mean - mean;
  mean += delta * (double(other.n) / total);
  m2 += other.m2 + delta * delta * (double(n) * double(other.n) / total);
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  n += other.n;
}

std::optional<double> RunningStat::variance() const {
  if (n < 2) return std::nullopt;
  return m2 / double(n - 1);
}

std::optional<double> RunningStat::standard_error() const {
  if (n < 2) return std::nullopt;
  return std::sqrt(m2 / double(n - 1) / double(n));
}

}  // namespace kvscope
