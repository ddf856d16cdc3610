// Selection by score with the one tie rule of the project (policies.md 1.4): higher score first,
// then the newer position; NaN after everything else, and counted.
#pragma once

#include <cstdint>
#include <vector>

namespace kvscope {

template <class Score>
struct Candidate {
  Score score{};
  std::int32_t position = 0;  // original position; distinct among the candidates
  std::int32_t slot = 0;      // what the caller wants back
};

struct TopK {
  std::vector<std::int32_t> slots;  // ascending
  int nan_scores = 0;               // among all candidates
};

// True if `a` is kept in preference to `b`. A strict total order, so a selection has exactly one
// result.
template <class Score>
bool ranks_before(const Candidate<Score>& a, const Candidate<Score>& b);

// The best min(k, n) candidates. Score is float, or std::uint64_t where scores are integers and are
// compared as such.
template <class Score>
TopK top_k(std::vector<Candidate<Score>> candidates, int k);

}  // namespace kvscope
