#include "metrics/stats/wilson.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

namespace kvscope {

std::optional<Interval> wilson95(std::int64_t successes, std::int64_t trials) {
  if (trials <= 0) return std::nullopt;
  const double z = boost::math::quantile(boost::math::normal(), 0.975);
  const double n = double(trials);
  const double share = double(successes) / n;
  const double denominator = 1 + z * z / n;
  const double centre = (share + z * z / (2 * n)) / denominator;
  const double half = z / denominator * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  // At 0 and at n successes one end is 0 or 1 exactly, which rounding would miss.
  return Interval{successes == 0 ? 0.0 : std::max(0.0, centre - half),
                  successes == trials ? 1.0 : std::min(1.0, centre + half)};
}

}  // namespace kvscope
