// Products of queries and weights with bf16 pages on tensor cores. A page lies as the products'
// second operand wants it: two neighbouring dimensions of a key, or the values of two neighbouring
// slots, are one word. Everybody who wants a row's bits takes the same steps:
//
//   logits   sixteen dimensions at a time, in order, onto 0
//
//   values   sixteen slots at a time, in order, onto 0 of each page
//
// A row's sums must not depend on what lies in the tile's other rows nor on which row it is. The
// stand-in on the CPU is so by construction; of tensor cores it is known but not documented, and
// tests that run on a device compare kernels that place rows otherwise.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/page_access.h"
#include "runner/backend/cuda/warp.h"

namespace kvscope::cuda {

// Of one product: [kTensorRows][kTensorDepth] · [kTensorDepth][kTensorColumns].
inline constexpr int kTensorRows = 16;
inline constexpr int kTensorColumns = 8;
inline constexpr int kTensorDepth = 16;
// Products side by side that have a column for each slot of a page, or for 32 dimensions.
inline constexpr int kWarpTiles = kWarpSize / kTensorColumns;
// Queries of page_logits() and page_values(), which fill a few rows only: their time goes to loads.
inline constexpr int kFewQueries = 4;

// The word of two bf16 values.
__device__ inline std::uint32_t bf16_pair(float first, float second) {
  return bf16_bits(first) | bf16_bits(second) << 16;
}
__device__ inline std::uint32_t bf16_pair(float2 pair) { return bf16_pair(pair.x, pair.y); }

__device__ inline bool is_finite(float x) {
  return (__float_as_uint(x) & 0x7F800000U) != 0x7F800000U;
}

// Values that are not finite must not meet the weight 0 of a row that does not see them. They are
// 0 in the products, and who sees them adds them afterwards.
__device__ inline std::uint32_t finite_or_zero(std::uint32_t pair, bool& all_finite) {
  const std::uint32_t keep = ((pair & 0x7F80U) == 0x7F80U ? 0U : 0xFFFFU) |
                             ((pair & 0x7F800000U) == 0x7F800000U ? 0U : 0xFFFF0000U);
  if (keep != 0xFFFFFFFFU) all_finite = false;
  return pair & keep;
}

// From sums where they are computed to one a lane: sum[tile] are a lane's sums of a product in
// whose row r < 8 is query r % kFewQueries; x[n] becomes query n's sum of column `lane` of the
// tiles side by side.
template <int kQueries>
__device__ inline void spread_over_lanes(const float (&sum)[kWarpTiles][4], int lane,
                                         float (&x)[kQueries]) {
  static_assert(kQueries <= kFewQueries);
  // Rows r and r + 4 are equal, so that one has what is wanted of the first half of the columns and
  // the other of the second half.
  const bool second_half = lane / 16 != 0;
  float held[kFewQueries];  // of columns (tile, i % 2), one query
#pragma unroll
  for (int i = 0; i < kFewQueries; ++i)
    held[i] = second_half ? sum[kWarpTiles / 2 + i / 2][i % 2] : sum[i / 2][i % 2];
    // Transposed between the four rows and the four columns: of one column, query i.
#pragma unroll
  for (int step = 1; step < kFewQueries; step *= 2) {
    const bool upper = (lane / 4 & step) != 0;
#pragma unroll
    for (int i = 0; i < kFewQueries; ++i) {
      if ((i & step) != 0) continue;
      const float other = __shfl_xor_sync(kAllLanes, upper ? held[i] : held[i + step], 4 * step);
      if (upper) {
        held[i] = other;
      } else {
        held[i + step] = other;
      }
    }
  }
  const int tile = lane / kTensorColumns;
  const int column = lane % kTensorColumns;
  const int source = (tile * 2 + column % 2) * 4 + column / 2;
#pragma unroll
  for (int n = 0; n < kQueries; ++n) x[n] = __shfl_sync(kAllLanes, held[n], source);
}

// z of kQueries queries with 32 keys, a key a lane. keys[tile]: the first word of key tile · 8 +
// lane / 4, whose words are kPageSlots apart. q: [kQueries][q_stride] bf16 values, 8-byte aligned.
template <int kQueries>
__device__ inline void tensor_logits(const std::uint32_t* const (&keys)[kWarpTiles], int head_dim,
                                     const float* q, int q_stride, int lane, float (&z)[kQueries]) {
  const int quad = lane % 4;
  const int query = lane / 4 % kFewQueries;
  // What lies beyond head_dim is 0.
  const auto query_pair = [&](int i) {
    return query < kQueries && i < head_dim
               ? bf16_pair(*reinterpret_cast<const float2*>(q + query * q_stride + i))
               : 0U;
  };
  float sum[kWarpTiles][4] = {};
#pragma unroll 2
  for (int first = 0; first < head_dim; first += kTensorDepth) {
    const int i = first + 2 * quad;
    const std::uint32_t a[4] = {query_pair(i), 0U, query_pair(i + 8), 0U};
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      const std::uint32_t b[2] = {i < head_dim ? keys[tile][i / 2 * kPageSlots] : 0U,
                                  i + 8 < head_dim ? keys[tile][(i / 2 + 4) * kPageSlots] : 0U};
      mma_m16n8k16(sum[tile], a, b);
    }
  }
  spread_over_lanes<kQueries>(sum, lane, z);
}

// o[n][k] = Σ_j p_j v_ij of 32 slots for dimension i = first_dim + k · 32 + lane, over the first
// live[n] slots. pair_at(j, i): dimension i of slots j and j + 1, j even; value_at(j, i): of one
// slot as float. p: [kQueries][p_stride] bf16 values, 8-byte aligned.
template <int kQueries, int kDims, class PairAt, class ValueAt>
__device__ inline void tensor_values(const PairAt& pair_at, const ValueAt& value_at, int head_dim,
                                     const float* p, int p_stride, const int (&live)[kQueries],
                                     int lane, int first_dim, float (&o)[kQueries][kDims]) {
  constexpr int kSteps = kPageSlots / kTensorDepth;
  const int quad = lane % 4;
  const int query = lane / 4 % kFewQueries;
  int live_of_query = 0;
  int most = 0;
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    if (query == n) live_of_query = live[n];
    most = max(most, live[n]);
  }
  const auto weight_pair = [&](int j) {
    if (j >= live_of_query) return 0U;
    const auto pair = *reinterpret_cast<const float2*>(p + query * p_stride + j);
    return bf16_pair(pair.x, j + 1 < live_of_query ? pair.y : 0.0F);
  };
  std::uint32_t a[kSteps][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int j = step * kTensorDepth + 2 * quad;
    a[step][0] = weight_pair(j);
    a[step][1] = 0;
    a[step][2] = weight_pair(j + 8);
    a[step][3] = 0;
  }
  bool all_finite = true;
#pragma unroll
  for (int k = 0; k < kDims; ++k) {
    float x[kQueries] = {};
    if (first_dim + k * kWarpSize < head_dim) {
      float sum[kWarpTiles][4] = {};
#pragma unroll
      for (int tile = 0; tile < kWarpTiles; ++tile) {
        const int i = first_dim + k * kWarpSize + tile * kTensorColumns + lane / 4;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const int j = step * kTensorDepth + 2 * quad;
          const std::uint32_t b[2] = {
              i < head_dim ? finite_or_zero(pair_at(j, i), all_finite) : 0U,
              i < head_dim ? finite_or_zero(pair_at(j + 8, i), all_finite) : 0U};
          mma_m16n8k16(sum[tile], a[step], b);
        }
      }
      spread_over_lanes<kQueries>(sum, lane, x);
    }
#pragma unroll
    for (int n = 0; n < kQueries; ++n) o[n][k] = x[n];
  }
  if (__all_sync(kAllLanes, all_finite)) return;
#pragma unroll 1
  for (int j = 0; j < most; ++j) {
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
      const int i = first_dim + k * kWarpSize + lane;
      const float v = i < head_dim ? value_at(j, i) : 0.0F;
      if (is_finite(v)) continue;
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
        if (j < live[n]) o[n][k] = fmaf(p[n * p_stride + j], v, o[n][k]);
      }
    }
  }
}

}  // namespace kvscope::cuda
