// Ada-KV: one budget for the heads of a layer (Feng et al., arXiv:2407.11550).
//
//   b = B - w,   f = floor(alpha * b)
//   keep     : each head its best f; the other n_kv_heads * (b - f) go to the best of what is left
//              of all heads (score, then newer position, then lower head)
//
// Needs: a score for each prefix token and KV head, of one scale for all heads.
//
// State: none.
//
// Deviations: the official code counts the winners of a global selection and rounds their mix with
// the floor, so that its sum drifts; here it is exact. alpha=1 is uniform.
#include "runner/policies/head_budgets.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "runner/policies/top_k.h"

namespace kvscope {
namespace {

// Total order over the heads: positions repeat, slots do not, and a lower slot at the same position
// is a lower head.
bool ranks_before_in_layer(const Candidate<float>& a, const Candidate<float>& b) {
  if (ranks_before(a, b)) return true;
  if (ranks_before(b, a)) return false;
  return a.slot < b.slot;
}

// slot = head * n_prefix + position
std::vector<Candidate<float>> candidates_of(std::span<const float> head, std::int32_t first_slot) {
  std::vector<Candidate<float>> candidates;
  candidates.reserve(head.size());
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    candidates.push_back({head[i], position, first_slot + position});
  }
  return candidates;
}

// A NaN counts neither in the part nor in the whole: it must not take its head down.
double share_of_best(std::span<const float> head, int base) {
  double whole = 0.0;
  for (const float score : head) whole += std::isnan(score) ? 0.0 : score;
  double part = 0.0;
  for (const std::int32_t i : top_k(candidates_of(head, 0), base).slots) {
    part += std::isnan(head[i]) ? 0.0 : head[i];
  }
  return whole > 0.0 ? part / whole : 1.0;
}

}  // namespace

HeadSelection adakv_selection(const HeadBudgetOptions& options, std::span<const float> scores,
                              int n_kv_heads, int base) {
  assert(n_kv_heads >= 1 && scores.size() % n_kv_heads == 0);
  assert(options.alpha >= 0.0 && options.alpha <= 1.0);
  const std::size_t n_prefix = scores.size() / n_kv_heads;
  base = std::clamp(base, 0, static_cast<int>(n_prefix));
  // 0.29 * 100 is 28.999… in binary; the floor of a decimal share is meant.
  const int floor = std::min(base, static_cast<int>(options.alpha * base + 1e-9));

  HeadSelection selection;
  selection.kept.resize(n_kv_heads);
  std::vector<Candidate<float>> rest;
  for (int head = 0; head < n_kv_heads; ++head) {
    const auto first_slot = static_cast<std::int32_t>(n_prefix * head);
    const auto row = scores.subspan(n_prefix * head, n_prefix);
    const TopK own = top_k(candidates_of(row, 0), floor);
    selection.kept[head] = own.slots;
    selection.nan_scores += own.nan_scores;
    const double weight = options.normalize ? share_of_best(row, base) : 1.0;
    auto next_own = own.slots.begin();
    for (Candidate<float>& candidate : candidates_of(row, first_slot)) {
      if (next_own != own.slots.end() && *next_own == candidate.position) {
        ++next_own;
        continue;
      }
      candidate.score = static_cast<float>(candidate.score * weight);
      rest.push_back(candidate);
    }
  }

  const auto shared = std::min(rest.size(), static_cast<std::size_t>(n_kv_heads) * (base - floor));
  const auto cut = rest.begin() + static_cast<std::ptrdiff_t>(shared);
  std::nth_element(rest.begin(), cut, rest.end(), ranks_before_in_layer);
  for (auto candidate = rest.begin(); candidate != cut; ++candidate) {
    selection.kept[candidate->slot / n_prefix].push_back(candidate->position);
  }
  for (auto& kept : selection.kept) std::sort(kept.begin(), kept.end());
  return selection;
}

}  // namespace kvscope
