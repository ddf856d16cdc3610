#include "runner/policies/apportion.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace kvscope {
namespace {

// Quotas are compared on a grid of 2^-32, far above the rounding of doubles: equal fractions of
// different layers are then equal, and a quota that is an integer has remainder zero.
constexpr int kGridBits = 32;

}  // namespace

std::vector<int> largest_remainder(std::span<const double> quotas, int total) {
  std::vector<int> result(quotas.size());
  std::vector<std::int64_t> remainders(quotas.size());
  int missing = total;
  for (std::size_t i = 0; i < quotas.size(); ++i) {
    const std::int64_t fixed = std::llround(std::ldexp(quotas[i], kGridBits));
    assert(fixed >= 0);
    result[i] = static_cast<int>(fixed >> kGridBits);
    remainders[i] = fixed & ((std::int64_t{1} << kGridBits) - 1);
    missing -= result[i];
  }
  assert(missing >= 0 && static_cast<std::size_t>(missing) <= quotas.size());
  std::vector<std::size_t> order(quotas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (int i = 0; i < missing; ++i) ++result[order[i]];
  return result;
}

std::vector<double> capped_shares(std::span<const double> weights, int total, int cap) {
  const auto n = static_cast<double>(weights.size());
  std::vector<double> shares(weights.size(), 0.0);
  std::vector<std::size_t> open(weights.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  double rest = std::min<double>(total, n * cap);
  // Every round closes at least one entry, or is the last.
  while (!open.empty()) {
    double sum = 0.0;
    for (const std::size_t i : open) sum += weights[i];
    for (const std::size_t i : open) {
      shares[i] = sum > 0.0 ? rest * (weights[i] / sum) : rest / static_cast<double>(open.size());
    }
    std::vector<std::size_t> below;
    double taken = 0.0;
    for (const std::size_t i : open) {
      if (shares[i] >= cap) {
        shares[i] = cap;
        taken += cap;
      } else {
        below.push_back(i);
      }
    }
    if (below.size() == open.size()) break;
    rest = std::max(0.0, rest - taken);
    open = std::move(below);
  }
  return shares;
}

}  // namespace kvscope
