#include "metrics/stats/sign_flip.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace kvscope {

std::optional<SignFlip> sign_flip_exact(std::span<const double> sums) {
  if (sums.empty() || std::ssize(sums) > kMaxSignFlipClusters) return std::nullopt;

  // The sums under every flip, by doubling: the first half has +s_g, the second -s_g.
  std::vector<double> flipped{0.0};
  flipped.reserve(std::size_t(1) << sums.size());
  for (const double sum : sums) {
    const std::size_t half = flipped.size();
    for (std::size_t i = 0; i < half; ++i) {
      flipped.push_back(flipped[i] - sum);
      flipped[i] += sum;
    }
  }

  const double observed = flipped.front();
  const double scale = std::accumulate(sums.begin(), sums.end(), 0.0, [](double total, double sum) {
    return total + std::abs(sum);
  });
  const double tie = 1e-12 * scale;
  std::int64_t less = 0;
  std::int64_t extreme = 0;
  for (const double sum : flipped) {
    less += sum <= observed + tie;
    extreme += std::abs(sum) >= std::abs(observed) - tie;
  }
  const double total = double(flipped.size());
  return SignFlip{.p_less = double(less) / total, .p_two_sided = double(extreme) / total};
}

}  // namespace kvscope
