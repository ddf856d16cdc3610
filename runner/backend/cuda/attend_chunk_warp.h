// One chunk of the arithmetic of attend_page.h by one warp, for kQueries queries of one KV head at
// once: every key and value that is loaded serves all of them. In three steps that pass weights
// through shared memory, so that each can be replaced by itself: logits, weights, values. Needs no
// block barrier; all arguments but what is said to be a lane's are alike in all lanes.
#pragma once

#include "gpu_runtime.h"
#include "runner/backend/cuda/attend_page.h"

namespace kvscope::cuda {

// Pages whose keys a warp reads side by side: each q that is loaded serves all of them. More would
// save little and cost short rows, whose last pages are computed in vain.
inline constexpr int kPagesAtOnce = 4;

// z of kQueries queries on kPages pages, as page_logits() has them for one; z beyond the written
// slots is anything. q: [kQueries][q_stride], 8-byte aligned, q_stride even.
template <SlotFormat kFormat, int kPages, int kQueries>
__device__ inline void logits_of_pages(const std::byte* const (&pages)[kPages], int head_dim,
                                       const float* q, int q_stride, int lane,
                                       float (&z)[kPages][kQueries]) {
  if constexpr (kFormat == SlotFormat::kBF16) {  // which does not read q for each page
#pragma unroll
    for (int page = 0; page < kPages; ++page)
      page_logits<kFormat, kQueries, false>(pages[page], head_dim, q, q_stride, lane, 0, {},
                                            z[page]);
  } else {
    float scale[kPages];
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      scale[page] = kIsCoded<kFormat> ? scales_of(pages[page], head_dim)[lane] : 1.0F;
#pragma unroll
      for (int n = 0; n < kQueries; ++n) z[page][n] = 0.0F;
    }
#pragma unroll 2
    for (int i = 0; i < head_dim; i += 2) {
      KeyPair k[kPages];
#pragma unroll
      for (int page = 0; page < kPages; ++page)
        k[page] = load_key_pair<kFormat>(pages[page], i, lane, scale[page]);
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
        const auto q_pair = *reinterpret_cast<const float2*>(q + n * q_stride + i);
#pragma unroll
        for (int page = 0; page < kPages; ++page) {
          z[page][n] = fmaf(q_pair.x, k[page].x, z[page][n]);
          z[page][n] = fmaf(q_pair.y, k[page].y, z[page][n]);
        }
      }
    }
  }
}

// What a warp keeps of its queries from chunk to chunk.
template <int kQueries, int kDims>
struct WarpQueries {
  SoftmaxState state[kQueries] = {};
  float o[kQueries][kDims] = {};  // Σ p v of dimension k · 32 + lane, not yet divided by state.sum
};

// The pages of a chunk that any of a warp's queries sees.
struct ChunkPages {
  std::byte* const* pages;  // [n_pages]
  int n_pages;              // 1 … kChunkPages
};

// p[n · kChunkSlots + j] = z of query n on slot j of the chunk; beyond the written slots anything.
// What a lane wrote only that lane may read yet. q: [kQueries][head_dim], 8-byte aligned.
template <SlotFormat kFormat, int kQueries>
__device__ inline void chunk_logits(const ChunkPages& chunk, int head_dim, const float* q, int lane,
                                    float* p) {
  for (int first = 0; first < chunk.n_pages; first += kPagesAtOnce) {
    const std::byte* pages[kPagesAtOnce];
#pragma unroll
    for (int k = 0; k < kPagesAtOnce; ++k)
      pages[k] = chunk.pages[min(first + k, chunk.n_pages - 1)];
    float z[kPagesAtOnce][kQueries];
    logits_of_pages<kFormat, kPagesAtOnce, kQueries>(pages, head_dim, q, head_dim, lane, z);
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
#pragma unroll
      for (int k = 0; k < kPagesAtOnce; ++k)
        p[n * kChunkSlots + (first + k) * kWarpSize + lane] = z[k][n];
    }
  }
}

// Turns the logits of one query into weights, rounded as the values' products want them, in place;
// 0 beyond the `live` slots of the chunk that it sees. live 0 gives sum 0. p: [kChunkSlots].
template <SlotFormat kFormat>
__device__ inline SoftmaxState chunk_weights(int live, int lane, float* p) {
  float x[kChunkPages];  // z, then p
  SoftmaxState chunk{-INFINITY, 0.0F};
#pragma unroll
  for (int page = 0; page < kChunkPages; ++page) {
    const int slot = page * kPageSlots + lane;
    x[page] = slot < live ? p[slot] : -INFINITY;
    chunk.max = fmaxf(chunk.max, x[page]);
  }
  chunk.max = warp_max(chunk.max);
#pragma unroll
  for (int page = 0; page < kChunkPages; ++page) {
    const int slot = page * kPageSlots + lane;
    x[page] = slot < live ? expf(x[page] - chunk.max) : 0.0F;
    p[slot] = product_weight<kFormat>(x[page]);
  }
  warp_sums(x);
#pragma unroll
  for (int page = 0; page < kChunkPages; ++page) chunk.sum += x[page];
  return chunk;
}

// Adds Σ p v of a chunk to o. seen: slots of the chunk that each query sees, 0: none, and its o is
// left alone. p: [kQueries][kChunkSlots], 16-byte aligned, visible to all lanes.
template <SlotFormat kFormat, int kQueries, int kDims>
__device__ inline void chunk_values(const ChunkPages& chunk, const PageLayout& layout,
                                    const float* p, const int (&seen)[kQueries],
                                    const MergeFactors (&factors)[kQueries], int lane,
                                    float (&o)[kQueries][kDims]) {
  // More at once would not leave registers for the sums of page, chunk and row.
  constexpr int kPass = kDims * kQueries < 8 ? kDims : 8 / kQueries;
#pragma unroll
  for (int first = 0; first < kDims; first += kPass) {
    float chunk_o[kQueries][kPass] = {};
    for (int page = 0; page < chunk.n_pages; ++page) {
      int live[kQueries];
#pragma unroll
      for (int n = 0; n < kQueries; ++n)
        live[n] = max(0, min(kPageSlots, seen[n] - page * kPageSlots));
      float page_o[kQueries][kPass];
      page_values<kFormat, kQueries, kPass>(chunk.pages[page] + layout.value_offset,
                                            layout.head_dim, p + page * kPageSlots, kChunkSlots,
                                            live, lane, page_o, first * kWarpSize);
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
#pragma unroll
        for (int k = 0; k < kPass; ++k) chunk_o[n][k] += page_o[n][k];
      }
    }
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
      if (seen[n] == 0) continue;
#pragma unroll
      for (int k = 0; k < kPass; ++k)
        o[n][first + k] = merged(o[n][first + k], chunk_o[n][k], factors[n]);
    }
  }
}

// Advances the queries of a warp by one chunk. q, p: shared memory of this warp, as above.
template <SlotFormat kFormat, int kQueries, int kDims>
__device__ inline void attend_chunk(const ChunkPages& chunk, const PageLayout& layout,
                                    const float* q, const int (&seen)[kQueries], int lane, float* p,
                                    WarpQueries<kQueries, kDims>& queries) {
  chunk_logits<kFormat, kQueries>(chunk, layout.head_dim, q, lane, p);
  SoftmaxState states[kQueries];
#pragma unroll
  for (int n = 0; n < kQueries; ++n)
    states[n] = chunk_weights<kFormat>(seen[n], lane, p + n * kChunkSlots);
  MergeFactors factors[kQueries] = {};
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    if (seen[n] > 0) factors[n] = merge(queries.state[n], states[n]);
  }
  __syncwarp();
  chunk_values<kFormat, kQueries, kDims>(chunk, layout, p, seen, factors, lane, queries.o);
  __syncwarp();  // the next chunk's logits overwrite p
}

}  // namespace kvscope::cuda
