// Exact sign-flip test of a mean difference: under the null hypothesis a whole cluster's
// differences could as well have had the other sign (Fisher 1935; clusters flip as one, as their
// items depend on each other).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace kvscope {

struct SignFlip {
  double p_less = 1;       // share of flips whose sum is at most the observed one
  double p_two_sided = 1;  // share of flips whose absolute sum is at least the observed one
};

inline constexpr int kMaxSignFlipClusters = 20;  // 2^20 sums take a few milliseconds

// sums: [clusters] sum of differences of each cluster. All 2^clusters flips are enumerated; the
// observed one counts, so no p is 0. Sums that differ by less than 1e-12 of the sum of absolute
// values count as ties: rounding must not split them. Nothing for no cluster or more than
// kMaxSignFlipClusters. All sums 0: both p are 1.
std::optional<SignFlip> sign_flip_exact(std::span<const double> sums);

// The same by `flips` random flips (splitmix64 of `seed`, the same on every machine) where there
// are too many to enumerate: p = (1 + extreme flips) / (1 + flips), valid for any number of them
// (Phipson and Smyth 2010). Nothing for no cluster.
std::optional<SignFlip> sign_flip_sampled(std::span<const double> sums, int flips,
                                          std::uint64_t seed);

}  // namespace kvscope
