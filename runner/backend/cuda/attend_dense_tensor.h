// attend_dense() of bf16 pages, on tensor cores.
#pragma once

#include "runner/backend/cuda/prompt_attention.h"

namespace kvscope::cuda {

void attend_dense_tensor(const DenseRows& job, PageLayout layout, cudaStream_t stream);

}  // namespace kvscope::cuda
