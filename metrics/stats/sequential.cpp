#include "metrics/stats/sequential.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace kvscope {
namespace {

namespace bm = boost::math;

// As far as a double's normal quantile goes.
constexpr double kLargestZ = 37.0;

double z_of(const NightResult& night, double margin) {
  const double distance = night.delta + margin;
  if (night.se == 0) return distance < 0 ? -kLargestZ : 0.0;
  const double t = distance / night.se;
  // By the smaller tail, which does not round to 1.
  const double tail = bm::cdf(bm::students_t(night.df), -std::abs(t));
  if (tail <= std::numeric_limits<double>::min()) return std::copysign(kLargestZ, t);
  return std::copysign(-bm::quantile(bm::normal(), tail), t);
}

double mixture(double sum, double nights) {
  const double variance = kEvidenceScale * kEvidenceScale;
  const double scale = 1 + nights * variance;
  const double x = sum * kEvidenceScale / std::sqrt(scale);
  return 2 / std::sqrt(scale) * std::exp(x * x / 2) * bm::cdf(bm::normal(), -x);
}

}  // namespace

std::vector<double> evidence_of_worse(std::span<const NightResult> nights, double margin) {
  std::vector<double> evidence;
  double sum = 0;
  double counted = 0;
  double largest = 1;
  for (const NightResult& night : nights) {
    if (night.se > 0 || night.delta < -margin) {
      sum += z_of(night, margin);
      ++counted;
      const double value = mixture(sum, counted);
      largest =
          std::max(largest, std::isfinite(value) ? value : std::numeric_limits<double>::max());
    }
    evidence.push_back(largest);
  }
  return evidence;
}

}  // namespace kvscope
