// Reductions over the lanes of a full warp, in one fixed order each.
#pragma once

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;
inline constexpr int kMostWarps = 32;  // of any block

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
// warp_sum of several values, whose shuffles do not wait for each other.
template <int kValues>
__device__ inline void warp_sums(float (&x)[kValues]) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) x[i] += __shfl_xor_sync(kAllLanes, x[i], step);
  }
}

}  // namespace kvscope::cuda
