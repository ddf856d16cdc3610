// Reductions over the threads of a block, in one fixed order: lanes pairwise, then warps in order.
#pragma once

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"
#include "runner/backend/cuda/warp.h"

namespace kvscope::cuda {

// The result in all threads; all threads of the block must call. combine is commutative. scratch:
// shared, [warps of the block], free for use again afterwards.
template <class T, class Combine>
__device__ inline T block_reduce(T x, T* scratch, const Combine& combine) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    x = combine(x, __shfl_xor_sync(kAllLanes, x, step));
  const int n_warps = int(blockDim.x) / kWarpSize;
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  T result = scratch[0];
  for (int warp = 1; warp < n_warps; ++warp) result = combine(result, scratch[warp]);
  __syncthreads();
  return result;
}

template <class T>
__device__ inline T block_sum(T x, T* scratch) {
  return block_reduce(x, scratch, [](T a, T b) { return a + b; });
}
template <class T>
__device__ inline T block_max(T x, T* scratch) {
  return block_reduce(x, scratch, [](T a, T b) { return a < b ? b : a; });
}

// Threads of a block that shares one row of n_items: whole warps, one item each as far as `most`
// (a multiple of a warp) allows. Depends on n_items alone, so a row's order of summation does too.
inline int threads_for(int n_items, int most) {
  const int whole = (n_items + kWarpSize - 1) / kWarpSize * kWarpSize;
  return whole < kWarpSize ? kWarpSize : whole < most ? whole : most;
}

}  // namespace kvscope::cuda
