#include "metrics/probes/swap_diagnosis.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace kvscope {
namespace {

// Sums of float weights in another order differ by this much; an exact tie must not depend on it.
constexpr double kRounding = 1e-6;

// Buckets by a weight's exponent and the first 3 bits of its fraction: an eighth of an octave.
constexpr int kDropped = 20;
constexpr std::size_t kBuckets = 512;  // weights down to 2^-64; smaller ones share the last

// 0: weights of 1 and more, so that larger weights come first.
std::size_t bucket_of(float weight) {
  constexpr std::int32_t kOne = std::bit_cast<std::int32_t>(1.0F) >> kDropped;
  const std::int32_t depth = kOne - (std::bit_cast<std::int32_t>(weight) >> kDropped);
  return std::size_t(std::clamp(depth, 0, std::int32_t(kBuckets) - 1));
}

// How many values, the largest or the smallest first, can be taken while their sum stays below
// `limit` (or at it: `inclusive`). O(n): only one bucket is sorted.
std::size_t taken_below(std::span<const float> values, double limit, bool inclusive,
                        bool largest_first) {
  struct Bucket {
    double sum = 0;
    std::size_t n = 0;
  };
  std::array<Bucket, kBuckets> buckets{};
  for (const float value : values) {
    Bucket& bucket = buckets[bucket_of(value)];
    bucket.sum += double(value);
    ++bucket.n;
  }
  const auto fits = [&](double sum) { return inclusive ? sum <= limit : sum < limit; };
  std::size_t taken = 0;
  double sum = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const std::size_t at = largest_first ? i : kBuckets - 1 - i;
    if (fits(sum + buckets[at].sum)) {
      sum += buckets[at].sum;
      taken += buckets[at].n;
      continue;
    }
    std::vector<float> crossing;
    for (const float value : values) {
      if (bucket_of(value) == at) crossing.push_back(value);
    }
    std::ranges::sort(crossing);
    if (largest_first) std::ranges::reverse(crossing);
    for (const float value : crossing) {
      sum += double(value);
      if (!fits(sum)) break;
      ++taken;
    }
    break;
  }
  return taken;
}

}  // namespace

int ghosts_needed(const SwapRule& rule, double rebound, std::span<const float> ghost_weights) {
  const double wanted = rule.wanted_share * rebound * (1 - kRounding);
  const std::size_t before = taken_below(ghost_weights, wanted, false, true);
  return int(std::min(before + 1, ghost_weights.size()));
}

int spare_slots(const SwapRule& rule, double rebound, std::span<const float> evictable_weights) {
  const double limit = rule.spare_share * rebound * (1 + kRounding);
  return int(taken_below(evictable_weights, limit, true, false));
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
