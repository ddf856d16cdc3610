#include "runner/policies/protect.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace kvscope {
namespace {

// Keeping the newest is a selection in which every score ties.
std::vector<Candidate<std::uint64_t>> as_ties(std::span<const std::int32_t> positions,
                                              std::span<const std::int32_t> slots) {
  std::vector<Candidate<std::uint64_t>> candidates;
  candidates.reserve(slots.size());
  for (const std::int32_t slot : slots) candidates.push_back({0, positions[slot], slot});
  return candidates;
}

}  // namespace

bool is_protected(const Protection& protection, std::int32_t position, std::int32_t newest) {
  return position < protection.sinks || position > newest - protection.recent ||
         (protection.last && position == newest);
}

template <class Score>
TopK keep_protected_and_best(const Protection& protection, std::span<const std::int32_t> positions,
                             std::span<const Score> scores, int budget) {
  assert(scores.size() == positions.size());
  const auto n = static_cast<std::int32_t>(positions.size());
  TopK kept;
  if (n <= budget) {
    kept.slots.resize(positions.size());
    std::iota(kept.slots.begin(), kept.slots.end(), 0);
    return kept;
  }
  const std::int32_t newest = *std::max_element(positions.begin(), positions.end());
  std::vector<std::int32_t> fixed;
  std::vector<Candidate<Score>> others;
  for (std::int32_t slot = 0; slot < n; ++slot) {
    if (is_protected(protection, positions[slot], newest)) {
      fixed.push_back(slot);
    } else {
      others.push_back({scores[slot], positions[slot], slot});
    }
  }
  const auto n_fixed = static_cast<int>(fixed.size());
  if (n_fixed > budget) return top_k(as_ties(positions, fixed), budget);
  kept = top_k(std::move(others), budget - n_fixed);
  kept.slots.insert(kept.slots.end(), fixed.begin(), fixed.end());
  std::sort(kept.slots.begin(), kept.slots.end());
  return kept;
}

template TopK keep_protected_and_best(const Protection&, std::span<const std::int32_t>,
                                      std::span<const float>, int);
template TopK keep_protected_and_best(const Protection&, std::span<const std::int32_t>,
                                      std::span<const std::uint64_t>, int);

}  // namespace kvscope
