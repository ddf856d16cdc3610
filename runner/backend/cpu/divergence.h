// How far arms' next-token distributions are from the full cache's, many rows at once.
#pragma once

#include <span>

#include "runner/backend/backend.h"
#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

// out: [pairs]. A pair is one thread's, in the order of logit_divergence.cpp, so its bits depend on
// that pair alone.
void compare_logits(ThreadPool& pool, std::span<const LogitPair> pairs, LogitComparison* out);

}  // namespace kvscope::cpu
