// The one attention arithmetic of this backend, for dense, scan and decode rows alike, so that a
// row's bits do not depend on the kernel that computes it. Slots are taken in slot order, in chunks
// of kChunkPages pages. Per query head and chunk:
//
//   z_j = Σ_i q_i k_ij                     one FMA chain over i
//
//   M   = max_j z_j
//
//   p_j = exp(z_j − M)                     0 beyond the slots that the query sees
//
//   l   = Σ_pages (Σ_j p_j)                a page by warp_sum over its lanes, pages in order
//
//   o_i = Σ_pages (Σ_j p_j v_ij)           a page by an FMA chain over j, pages in order
//
// Chunks are merged in order by merge(). bf16 pages round q and p (not l's) to bf16, as the CPU
// does, and tensor cores multiply them: the chains over i and j go in the steps of page_tensor.h.
#pragma once

#include "gpu_runtime.h"
#include "runner/backend/cuda/page_access.h"
#include "runner/backend/cuda/page_tensor.h"
#include "runner/backend/cuda/warp.h"

namespace kvscope::cuda {

inline constexpr int kChunkPages = 8;
inline constexpr int kChunkSlots = kChunkPages * kPageSlots;

// Softmax state of one query head: max and sum of what was merged so far; sum == 0: nothing yet.
struct SoftmaxState {
  float max;
  float sum;
};

// Factors of what was merged before and of a new chunk (M, l); state afterwards covers both.
struct MergeFactors {
  float old_part;
  float new_part;
};
__device__ inline MergeFactors merge(SoftmaxState& state, SoftmaxState chunk) {
  if (state.sum == 0.0F) {
    state = chunk;
    return {0.0F, 1.0F};
  }
  const float max = fmaxf(state.max, chunk.max);
  const MergeFactors factors{expf(state.max - max), expf(chunk.max - max)};
  state.sum = fmaf(state.sum, factors.old_part, chunk.sum * factors.new_part);
  state.max = max;
  return factors;
}
// One element of the output under merge(): an absent old part must not be read.
__device__ inline float merged(float old_value, float new_value, MergeFactors factors) {
  if (factors.old_part == 0.0F) return new_value * factors.new_part;
  return fmaf(old_value, factors.old_part, new_value * factors.new_part);
}

// z of kQueries queries on one page, a slot a lane. q: [kQueries][q_stride], 8-byte aligned,
// q_stride even, read by all lanes alike. Lanes beyond the written slots give anything. kRotate:
// keys lie unrotated and turn by angle (of this lane's slot); neither they nor the queries are then
// rounded (the CPU's rule), so that tensor cores are no use. Of a whole warp together.
template <SlotFormat kFormat, int kQueries, bool kRotate>
__device__ inline void page_logits(const std::byte* page, int head_dim, const float* q,
                                   int q_stride, int lane, int angle, const RopeRows& rope,
                                   float (&z)[kQueries]) {
  if constexpr (kFormat == SlotFormat::kBF16 && !kRotate) {
    const std::uint32_t* keys[kWarpTiles];
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile)
      keys[tile] = reinterpret_cast<const std::uint32_t*>(page) + tile * kTensorColumns + lane / 4;
    tensor_logits<kQueries>(keys, head_dim, q, q_stride, lane, z);
  } else {
    const float scale = kIsCoded<kFormat> ? scales_of(page, head_dim)[lane] : 1.0F;
    const std::size_t turn = kRotate ? std::size_t(angle) * (head_dim / 2) : 0;
#pragma unroll
    for (int n = 0; n < kQueries; ++n) z[n] = 0.0F;
#pragma unroll 4
    for (int i = 0; i < head_dim; i += 2) {
      KeyPair k = load_key_pair<kFormat>(page, i, lane, scale);
      if constexpr (kRotate) k = turned(k, rope.cos[turn + i / 2], rope.sin[turn + i / 2]);
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
        const auto q_pair = *reinterpret_cast<const float2*>(q + n * q_stride + i);
        z[n] = fmaf(q_pair.x, k.x, z[n]);
        z[n] = fmaf(q_pair.y, k.y, z[n]);
      }
    }
  }
}

// o[n][k] = Σ_j p_j v_ij of one page for dimension i = first_dim + k · 32 + lane, over the first
// live[n] slots. p: [kQueries][p_stride] weights of the page's slots (rounded where the format
// wants it), read by all lanes alike; p 16-byte aligned, p_stride a multiple of 4. Lanes beyond
// head_dim get 0. Of a whole warp together.
template <SlotFormat kFormat, int kQueries, int kDims>
__device__ inline void page_values(const std::byte* values, int head_dim, const float* p,
                                   int p_stride, const int (&live)[kQueries], int lane,
                                   float (&o)[kQueries][kDims], int first_dim = 0) {
  if constexpr (kFormat == SlotFormat::kBF16) {
    const auto* pairs = reinterpret_cast<const std::uint32_t*>(values);
    tensor_values<kQueries, kDims>(
        [&](int j, int i) { return pairs[j / 2 * head_dim + i]; },
        [&](int j, int i) { return load_value<kFormat>(values, head_dim, j, i); }, head_dim, p,
        p_stride, live, lane, first_dim, o);
  } else {
    int most = 0;
    int least = kPageSlots;
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
      most = max(most, live[n]);
      least = min(least, live[n]);
#pragma unroll
      for (int k = 0; k < kDims; ++k) o[n][k] = 0.0F;
    }
    int j = 0;
    // Slots that all queries see, several loads under way at once.
    constexpr int kAtOnce = 4;
    for (; j + kAtOnce <= least; j += kAtOnce) {
      float v[kDims][kAtOnce];
#pragma unroll
      for (int k = 0; k < kDims; ++k) {
        const int i = first_dim + k * kWarpSize + lane;
#pragma unroll
        for (int s = 0; s < kAtOnce; ++s)
          v[k][s] = i < head_dim ? load_value<kFormat>(values, head_dim, j + s, i) : 0.0F;
      }
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
        const auto weights = *reinterpret_cast<const float4*>(p + n * p_stride + j);
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
          o[n][k] = fmaf(weights.x, v[k][0], o[n][k]);
          o[n][k] = fmaf(weights.y, v[k][1], o[n][k]);
          o[n][k] = fmaf(weights.z, v[k][2], o[n][k]);
          o[n][k] = fmaf(weights.w, v[k][3], o[n][k]);
        }
      }
    }
    for (; j < most; ++j) {
#pragma unroll
      for (int k = 0; k < kDims; ++k) {
        const int i = first_dim + k * kWarpSize + lane;
        if (i >= head_dim) continue;
        const float v = load_value<kFormat>(values, head_dim, j, i);
#pragma unroll
        for (int n = 0; n < kQueries; ++n) {
          // What lies beyond may be infinite or NaN, which weight 0 would not undo.
          if (j < live[n]) o[n][k] = fmaf(p[n * p_stride + j], v, o[n][k]);
        }
      }
    }
  }
}

// A weight as the values' products want it.
template <SlotFormat kFormat>
__device__ inline float product_weight(float p) {
  return kFormat == SlotFormat::kBF16 ? rounded_to_bf16(p) : p;
}

}  // namespace kvscope::cuda
