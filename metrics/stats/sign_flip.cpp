#include "metrics/stats/sign_flip.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "runner/base/splitmix.h"

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

std::optional<SignFlip> sign_flip_sampled(std::span<const double> sums, int flips,
                                          std::uint64_t seed) {
  if (sums.empty()) return std::nullopt;
  double observed = 0;
  double scale = 0;
  for (const double sum : sums) {
    observed += sum;
    scale += std::abs(sum);
  }
  const double tie = 1e-12 * scale;
  std::int64_t less = 1;
  std::int64_t extreme = 1;
  for (int flip = 0; flip < flips; ++flip) {
    double total = 0;
    std::uint64_t signs = 0;
    for (std::size_t g = 0; g < sums.size(); ++g) {
      if (g % 64 == 0) signs = smix(seed++);
      total += (signs >> (g % 64) & 1) != 0 ? -sums[g] : sums[g];
    }
    less += total <= observed + tie;
    extreme += std::abs(total) >= std::abs(observed) - tie;
  }
  const double count = double(flips) + 1;
  return SignFlip{.p_less = double(less) / count, .p_two_sided = double(extreme) / count};
}

}  // namespace kvscope
