#include "metrics/probes/swap_diagnosis.h"

#include <algorithm>
#include <functional>

namespace kvscope {
namespace {

// Sums of float weights in another order differ by this much; an exact tie must not depend on it.
constexpr double kRounding = 1e-6;

// How many of the first values in `order` can be taken while their sum stays below `limit` (or at
// it: `inclusive`), by bisection: O(n).
template <typename Order>
std::size_t taken_below(std::vector<float> values, double limit, bool inclusive, Order order) {
  std::size_t begin = 0;
  std::size_t end = values.size();
  double sum = 0;
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    const auto at = [&](std::size_t i) { return values.begin() + std::ptrdiff_t(i); };
    std::nth_element(at(begin), at(middle), at(end), order);
    double upper = sum;
    for (std::size_t i = begin; i <= middle; ++i) upper += double(values[i]);
    if (inclusive ? upper <= limit : upper < limit) {
      sum = upper;
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace

int ghosts_needed(const SwapRule& rule, double rebound, std::span<const float> ghost_weights) {
  const double wanted = rule.wanted_share * rebound * (1 - kRounding);
  const std::size_t before =
      taken_below({ghost_weights.begin(), ghost_weights.end()}, wanted, false, std::greater<>());
  return int(std::min(before + 1, ghost_weights.size()));
}

int spare_slots(const SwapRule& rule, double rebound, std::span<const float> evictable_weights) {
  const double limit = rule.spare_share * rebound * (1 + kRounding);
  return int(taken_below({evictable_weights.begin(), evictable_weights.end()}, limit, true,
                         std::less<>()));
}

SwapDiagnosis diagnose_swap(const SwapRule& rule, double rebound, std::optional<double> delta,
                            std::span<const float> ghost_weights,
                            std::span<const float> evictable_weights) {
  if (rebound < rule.least_rebound || (delta && *delta < rule.least_delta)) return {};
  SwapDiagnosis result;
  result.ghosts_needed = ghosts_needed(rule, rebound, ghost_weights);
  result.spare_slots = spare_slots(rule, rebound, evictable_weights);
  result.reading =
      result.ghosts_needed <= result.spare_slots ? SwapReading::kWrongPlace : SwapReading::kTooMuch;
  return result;
}

}  // namespace kvscope
