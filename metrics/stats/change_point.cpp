#include "metrics/stats/change_point.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "runner/base/splitmix.h"

namespace kvscope {
namespace {

struct Cut {
  std::size_t at = 0;
  double strength = 0;  // |difference of means| · √(k (n - k) / n)
};

Cut strongest_cut(std::span<const double> series, double sum) {
  const double n = double(series.size());
  Cut best;
  double left = 0;
  for (std::size_t k = 1; k < series.size(); ++k) {
    left += series[k - 1];
    const double before = double(k);
    const double after = n - before;
    const double strength =
        std::abs(left / before - (sum - left) / after) * std::sqrt(before * after / n);
    if (strength > best.strength) best = {k, strength};
  }
  return best;
}

}  // namespace

std::optional<ChangePoint> find_change(std::span<const double> series, int shuffles,
                                       std::uint64_t seed) {
  if (series.size() < kMinSeries) return std::nullopt;
  if (!std::ranges::all_of(series, [](double x) { return std::isfinite(x); })) return std::nullopt;
  const double sum = std::accumulate(series.begin(), series.end(), 0.0);
  const Cut seen = strongest_cut(series, sum);
  if (seen.strength == 0) return std::nullopt;

  // Rounding must not tell orders apart whose cuts are equal.
  const double enough = seen.strength * (1 - 1e-12);
  std::vector<double> order(series.begin(), series.end());
  std::int64_t as_strong = 1;
  for (int i = 0; i < shuffles; ++i) {
    for (std::size_t last = order.size() - 1; last > 0; --last) {
      std::swap(order[last], order[std::size_t(smix(seed++) % (last + 1))]);
    }
    as_strong += strongest_cut(order, sum).strength >= enough;
  }
  const auto mean = [](std::span<const double> part) {
    return std::accumulate(part.begin(), part.end(), 0.0) / double(part.size());
  };
  return ChangePoint{seen.at, mean(series.first(seen.at)), mean(series.subspan(seen.at)),
                     double(as_strong) / (double(shuffles) + 1)};
}

}  // namespace kvscope
