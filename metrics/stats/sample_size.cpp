#include "metrics/stats/sample_size.h"

#include <algorithm>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <utility>

namespace kvscope {
namespace {

namespace bm = boost::math;

constexpr std::int64_t kMostClusters = 1'000'000'000;
// Beyond it the t distribution is the normal one to 1e-6, and the noncentral series are slow.
constexpr int kNormalFrom = 20'000;
constexpr double kCertain = 40;

}  // namespace

double one_sided_power(double effect_in_se, int df, double alpha) {
  const bm::normal standard;
  if (df >= kNormalFrom) {
    return bm::cdf(standard, effect_in_se - bm::quantile(bm::complement(standard, alpha)));
  }
  const double critical = bm::quantile(bm::complement(bm::students_t(df), alpha));
  if (effect_in_se == 0) return alpha;
  if (effect_in_se > kCertain * std::max(1.0, critical)) return 1.0;  // the series would not end
  return bm::cdf(bm::complement(bm::non_central_t(df, effect_in_se), critical));
}

double detectable_effect_in_se(int df, double alpha, double power) {
  const auto missing = [&](double effect) { return one_sided_power(effect, df, alpha) - power; };
  double high = 4;
  while (missing(high) < 0) high *= 2;
  const auto [low, up] =
      bm::tools::bisect(missing, 0.0, high, bm::tools::eps_tolerance<double>(40));
  return (low + up) / 2;
}

std::optional<std::int64_t> clusters_needed(double effect, double se, std::int64_t clusters,
                                            double alpha, double power) {
  if (se == 0) return 2;
  const double sd = se * std::sqrt(double(clusters));  // of one cluster's share in the mean
  const auto enough = [&](std::int64_t n) {
    const int df = int(std::min<std::int64_t>(n - 1, kNormalFrom));
    return one_sided_power(effect * std::sqrt(double(n)) / sd, df, alpha) >= power;
  };
  std::int64_t high = 2;
  while (!enough(high)) {
    if (high > kMostClusters) return std::nullopt;
    high *= 2;
  }
  std::int64_t low = std::max<std::int64_t>(2, high / 2);
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (enough(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace kvscope
