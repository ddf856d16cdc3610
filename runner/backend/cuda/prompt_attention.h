// Attention of prompt rows: dense, sparse, and the statistics that policies select by. Arithmetic:
// attend_page.h. Pointers are device-visible, calls asynchronous on `stream`.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

struct HeadCounts {
  int n_heads = 0;
  int n_kv_heads = 0;
  __host__ __device__ int group() const { return n_heads / n_kv_heads; }
};

// Row r (query q[r], rotated, scaled, rounded by rotate_queries) sees slots 0 … slots_before + r.
struct DenseRows {
  const HeadSlots* heads = nullptr;  // [n_kv_heads]
  const float* q = nullptr;          // [n_rows][n_heads][head_dim]
  float* out = nullptr;              // [n_rows][n_heads][head_dim]
  float* lse = nullptr;  // optional [n_heads][lse_stride]: max + log(sum) of each row, at row r
  std::size_t lse_stride = 0;
  HeadCounts counts;
  int n_rows = 0;
  int slots_before = 0;
};
void attend_dense(const DenseRows& job, PageLayout layout, cudaStream_t stream);

// out[head][j] = Σ_r weight[r] · exp(z_rj − lse[head][r]) over rows r = 0 … n_rows - 1 that see
// slot j, in order of r; row r is prompt row first_row + r and sees slots 0 … first_row + r. j = 0
// … n_prompt - 1.
struct ColumnWeights {
  const HeadSlots* heads = nullptr;   // [n_kv_heads]
  const float* q = nullptr;           // [n_rows][n_heads][head_dim]
  const float* lse = nullptr;         // [n_heads][n_prompt], by prompt row
  const float* row_weight = nullptr;  // [n_rows]
  float* out = nullptr;               // [n_heads][n_prompt]
  HeadCounts counts;
  int n_rows = 0;
  int first_row = 0;
  int n_prompt = 0;
};
void column_weights(const ColumnWeights& job, PageLayout layout, cudaStream_t stream);

// out[r][head][j] = exp(z_rj − lse[head][first_row + r]) for j ≤ first_row + r; other columns are
// left alone. out: [n_rows][n_heads][n_prompt].
struct AttentionRows {
  const HeadSlots* heads = nullptr;  // [n_kv_heads]
  const float* q = nullptr;          // [n_rows][n_heads][head_dim]
  const float* lse = nullptr;        // [n_heads][n_prompt]
  float* out = nullptr;
  HeadCounts counts;
  int n_rows = 0;
  int first_row = 0;
  int n_prompt = 0;
};
void attention_rows(const AttentionRows& job, PageLayout layout, cudaStream_t stream);

// Attention over chosen slots only: query i sees the slots of ranges[first_range[i]] …
// ranges[first_range[i + 1] - 1], ascending and at least one slot. The arithmetic is
// attend_page.h's with these slots in place of all, numbered in order: a choice of every slot has
// the bits of a dense row.
struct SlotRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};
struct SelectedRows {
  const HeadSlots* heads = nullptr;             // indexed by head_of_query
  const std::int32_t* head_of_query = nullptr;  // [n_queries]
  const float* q = nullptr;                     // [n_queries][head_dim]
  const SlotRange* ranges = nullptr;
  const std::int32_t* first_range = nullptr;  // [n_queries + 1]
  float* const* out = nullptr;                // [n_queries] → [head_dim]
  int n_queries = 0;
};
void attend_selected(const SelectedRows& job, PageLayout layout, cudaStream_t stream);

}  // namespace kvscope::cuda
