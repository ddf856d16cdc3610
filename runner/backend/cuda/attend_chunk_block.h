// One chunk of the arithmetic of attend_page.h by one block of kChunkPages warps, a page a warp,
// for a few queries of one KV head at once. All arguments but z are alike in all threads of the
// block.
#pragma once

#include <cmath>

#include "gpu_runtime.h"
#include "runner/backend/cuda/attend_page.h"

namespace kvscope::cuda {

inline constexpr int kAttendThreads = kChunkPages * kWarpSize;
inline constexpr int kQueriesAtOnce = 4;  // what registers hold of sums without spilling
// Values are read in passes of so many dimensions, which bounds shared memory and registers.
inline constexpr int kLaneDims = 4;
inline constexpr int kPassDims = kLaneDims * kWarpSize;
static_assert(kAttendThreads == 2 * kPassDims);

// Shared memory of a block, beside its queries.
struct ChunkShared {
  alignas(16) float weights[kQueriesAtOnce][kChunkSlots];
  float page_max[kQueriesAtOnce][kChunkPages];
  float page_sum[kQueriesAtOnce][kChunkPages];
  float page_values[kChunkPages][kQueriesAtOnce][kPassDims];
};

// Softmax of a whole row: a_j = exp(z_j − max) · inverse_sum.
struct RowSoftmax {
  float max;
  float inverse_sum;
};
__device__ inline RowSoftmax whole_row(SoftmaxState state) { return {state.max, 1.0F / state.sum}; }
__device__ inline float probability(float z, RowSoftmax row) {
  return expf(z - row.max) * row.inverse_sum;
}

__host__ __device__ constexpr int chunks_of(int n_slots) {
  return (n_slots + kChunkSlots - 1) / kChunkSlots;
}

// The chunk's pages as the threads of a block share them.
struct ChunkOfHead {
  const HeadSlots& slots;
  int chunk;

  __device__ int n_pages() const {
    return min(kChunkPages, (slots.n_slots - chunk * kChunkSlots + kPageSlots - 1) / kPageSlots);
  }
  __device__ bool has_page() const { return int(threadIdx.x) / kWarpSize < n_pages(); }
  __device__ int slot() const { return chunk * kChunkSlots + int(threadIdx.x); }
  __device__ bool is_live() const { return slot() < slots.n_slots; }
  __device__ int live_of_page() const {
    return min(kPageSlots, slots.n_slots - slot() / kPageSlots * kPageSlots);
  }
  __device__ const std::byte* page() const { return slots.pages[slot() / kPageSlots]; }
};

// z[n] of this thread's slot, anything where there is none. Keys turn by the slots' ranks if they
// have any. q: [kQueries][head_dim], 8-byte aligned.
template <SlotFormat kFormat, int kQueries>
__device__ inline void logits_of_chunk(const ChunkOfHead& chunk, int head_dim, const RopeRows& rope,
                                       const float* q, float (&z)[kQueries]) {
  const int lane = int(threadIdx.x) % kWarpSize;
  if (!chunk.has_page()) return;
  if (chunk.slots.rank == nullptr) {
    page_logits<kFormat, kQueries, false>(chunk.page(), head_dim, q, head_dim, lane, 0, rope, z);
  } else {
    const int angle = chunk.is_live() ? chunk.slots.rank[chunk.slot()] : 0;
    page_logits<kFormat, kQueries, true>(chunk.page(), head_dim, q, head_dim, lane, angle, rope, z);
  }
}

// Weights of the chunk's slots to shared.weights, rounded as the values' products want them; those
// of a page are visible to its own warp. Barriers within.
template <SlotFormat kFormat, int kQueries>
__device__ inline void weigh_chunk(const ChunkOfHead& chunk, const float (&z)[kQueries],
                                   ChunkShared& shared, SoftmaxState (&states)[kQueries]) {
  const int warp = int(threadIdx.x) / kWarpSize;
  const int lane = int(threadIdx.x) % kWarpSize;
  const int n_pages = chunk.n_pages();
  const bool is_live = chunk.is_live();
  if (warp < n_pages) {
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
      const float most = warp_max(is_live ? z[n] : -INFINITY);
      if (lane == 0) shared.page_max[n][warp] = most;
    }
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    states[n] = {-INFINITY, 0.0F};
    for (int page = 0; page < n_pages; ++page)
      states[n].max = fmaxf(states[n].max, shared.page_max[n][page]);
  }
  if (warp < n_pages) {
    float p[kQueries];
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
      p[n] = is_live ? expf(z[n] - states[n].max) : 0.0F;
      shared.weights[n][threadIdx.x] = product_weight<kFormat>(p[n]);
    }
    warp_sums(p);
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
      if (lane == 0) shared.page_sum[n][warp] = p[n];
    }
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    for (int page = 0; page < n_pages; ++page) states[n].sum += shared.page_sum[n][page];
  }
}

// Calls emit(n, i, Σ p v) once for each query and dimension, always in the same thread. Follows
// weigh_chunk(), which may follow it without a barrier.
template <SlotFormat kFormat, int kQueries, class Emit>
__device__ inline void values_of_chunk(const ChunkOfHead& chunk, const PageLayout& layout,
                                       ChunkShared& shared, const Emit& emit) {
  const int warp = int(threadIdx.x) / kWarpSize;
  const int lane = int(threadIdx.x) % kWarpSize;
  const int n_pages = chunk.n_pages();
  for (int first = 0; first < layout.head_dim; first += kPassDims) {
    if (first > 0) __syncthreads();
    if (warp < n_pages) {
      int live[kQueries];
#pragma unroll
      for (int n = 0; n < kQueries; ++n) live[n] = chunk.live_of_page();
      float o[kQueries][kLaneDims];
      page_values<kFormat, kQueries, kLaneDims>(chunk.page() + layout.value_offset, layout.head_dim,
                                                shared.weights[0] + warp * kPageSlots, kChunkSlots,
                                                live, lane, o, first);
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
#pragma unroll
        for (int k = 0; k < kLaneDims; ++k)
          shared.page_values[warp][n][k * kWarpSize + lane] = o[n][k];
      }
    }
    __syncthreads();
    const int half = int(threadIdx.x) / kPassDims;  // halves of the block take turns at queries
    const int at = int(threadIdx.x) % kPassDims;
    if (first + at >= layout.head_dim) continue;
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
      if (n % 2 != half) continue;
      float o = 0.0F;
      for (int page = 0; page < n_pages; ++page) o += shared.page_values[page][n][at];
      emit(n, first + at, o);
    }
  }
}

// Calls body.operator()<n>(first) for groups of up to kQueriesAtOnce of n_queries.
template <class Body>
__device__ inline void for_query_groups(int n_queries, const Body& body) {
  int first = 0;
  for (; first + kQueriesAtOnce <= n_queries; first += kQueriesAtOnce)
    body.template operator()<kQueriesAtOnce>(first);
  switch (n_queries - first) {
    case 3:
      return body.template operator()<3>(first);
    case 2:
      return body.template operator()<2>(first);
    case 1:
      return body.template operator()<1>(first);
    default:
      return;
  }
}

}  // namespace kvscope::cuda
