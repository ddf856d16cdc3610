// Prompt rows and query heads as kernels of dense attention number them.
#pragma once

#include <cstddef>

#include "gpu_runtime.h"
#include "runner/backend/cuda/prompt_attention.h"

namespace kvscope::cuda {

// The i-th query of a KV head, in order of row and then of head.
struct DenseQuery {
  int row;
  int head;
  __device__ DenseQuery(const DenseRows& job, int kv_head, int i)
      : row(i / job.counts.group()), head(kv_head * job.counts.group() + i % job.counts.group()) {}
  // Where it starts in [n_rows][n_heads][head_dim].
  __device__ std::size_t offset(const DenseRows& job, int head_dim) const {
    return (std::size_t(row) * job.counts.n_heads + head) * head_dim;
  }
};

}  // namespace kvscope::cuda
