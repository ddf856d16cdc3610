// Reductions over the lanes of a full warp, in one fixed order each.
#pragma once

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

}  // namespace kvscope::cuda
