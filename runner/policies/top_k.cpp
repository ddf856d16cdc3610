#include "runner/policies/top_k.h"

#include <algorithm>

namespace kvscope {
namespace {

// Integers have no NaN; the comparison below is false for them and the compiler removes it.
template <class Score>
bool is_nan(Score score) {
  return score != score;
}

}  // namespace

template <class Score>
bool ranks_before(const Candidate<Score>& a, const Candidate<Score>& b) {
  const bool a_nan = is_nan(a.score);
  const bool b_nan = is_nan(b.score);
  if (a_nan != b_nan) return b_nan;
  if (!a_nan && a.score != b.score) return a.score > b.score;
  return a.position > b.position;
}

template <class Score>
TopK top_k(std::vector<Candidate<Score>> candidates, int k) {
  TopK result;
  for (const auto& candidate : candidates) result.nan_scores += is_nan(candidate.score) ? 1 : 0;
  const auto wanted = static_cast<std::size_t>(std::max(k, 0));
  if (wanted < candidates.size()) {
    const auto cut = candidates.begin() + static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(candidates.begin(), cut, candidates.end(), ranks_before<Score>);
    candidates.erase(cut, candidates.end());
  }
  result.slots.reserve(candidates.size());
  for (const auto& candidate : candidates) result.slots.push_back(candidate.slot);
  std::sort(result.slots.begin(), result.slots.end());
  return result;
}

template bool ranks_before(const Candidate<float>&, const Candidate<float>&);
template bool ranks_before(const Candidate<std::uint64_t>&, const Candidate<std::uint64_t>&);
template TopK top_k(std::vector<Candidate<float>>, int);
template TopK top_k(std::vector<Candidate<std::uint64_t>>, int);

}  // namespace kvscope
