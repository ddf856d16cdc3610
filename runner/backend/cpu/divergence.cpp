#include "runner/backend/cpu/divergence.h"

namespace kvscope::cpu {

void compare_logits(ThreadPool& pool, std::span<const LogitPair> pairs, LogitComparison* out) {
  pool.parallel_for(pairs.size(), [&](std::size_t i, int) {
    const LogitPair& pair = pairs[i];
    out[i] = kvscope::compare_logits(pair.full, pair.full_lse, pair.arm, pair.arm_lse);
  });
}

}  // namespace kvscope::cpu
