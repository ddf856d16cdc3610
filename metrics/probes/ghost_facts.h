// How well the ghosts behind a summary were remembered (policies.md 8.8).
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvscope {

struct GhostFacts {
  std::int64_t n_remembered = 0;  // summed over the rows of KV heads that show ghosts
  std::int64_t n_forgotten = 0;   // likewise
  double logit_bound = 0;         // largest error of a logit, where keys are rounded

  // Share of the ghosts that rows saw; 1 of none.
  double coverage() const {
    const std::int64_t n = n_remembered + n_forgotten;
    return n == 0 ? 1.0 : double(n_remembered) / double(n);
  }
  void merge(const GhostFacts& other) {
    n_remembered += other.n_remembered;
    n_forgotten += other.n_forgotten;
    logit_bound = std::max(logit_bound, other.logit_bound);
  }
};

}  // namespace kvscope
