// Kernels over next-token logits [rows][n_vocab]. Pointers are device-visible, calls asynchronous
// on `stream`. A row's result depends on that row (or pair) alone.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/engine/logit_divergence.h"

namespace kvscope::cuda {

// log Σ exp in double of each row; NaN or ±infinity where the logits have them.
void log_sum_exp(const float* logits, int rows, int n_vocab, double* lse, cudaStream_t stream);

// The first of the largest logits of each row. A NaN counts as less than everything, a row of NaNs
// gives 0.
void greedy(const float* logits, int rows, int n_vocab, std::int32_t* ids, cudaStream_t stream);

struct RowAndId {
  std::int32_t row;
  std::int32_t id;
};
// out[i] = logits[places[i].row][places[i].id]; an id outside [0, n_vocab) gives NaN.
void pick_logits(const float* logits, int n_vocab, const RowAndId* places, int n, float* out,
                 cudaStream_t stream);

struct LogitPairRows {
  const float* full;
  const float* arm;
  double full_lse;
  double arm_lse;
};
// KL(full ‖ arm) in nats, in double, and top-1 agreement of each pair, as compare_logits of
// logit_divergence.h defines them. pairs, out: [n] device-visible.
void compare_logits(const LogitPairRows* pairs, int n, int n_vocab, LogitComparison* out,
                    cudaStream_t stream);

}  // namespace kvscope::cuda
