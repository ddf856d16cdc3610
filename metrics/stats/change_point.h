// Where, if anywhere, did the level of a series change? The largest standardised difference of
// means before and after, over all cuts (Hinkley, Biometrika 57, 1970), with a permutation p: it
// asks nothing of the values but that their order would not matter without a change.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace kvscope {

struct ChangePoint {
  std::size_t first_after = 0;  // index of the first value of the new level
  double before = 0;            // means
  double after = 0;
  double p = 1;  // share of `shuffles` orders (the observed one counts) with a cut as strong
};

inline constexpr std::size_t kMinSeries = 6;  // 720 orders: p below 0.002 is possible

// Nothing below kMinSeries values, for equal values, or values that are not finite.
std::optional<ChangePoint> find_change(std::span<const double> series, int shuffles,
                                       std::uint64_t seed);

}  // namespace kvscope
