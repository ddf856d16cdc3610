// The one attention arithmetic (architecture.md §3): pages of 32 keys in slot order. Per page and
// query head:
//
//   z_j = Σ_i q_i k_ij
//
//   m'  = max(m, max_j z_j)
//
//   p_j = exp(z_j − m')
//
//   l   = l·exp(m − m') + Σ_j p_j
//
//   o   = o·exp(m − m') + Σ_j p_j v_j     j in slot order
//
// z_j is one fused multiply-add chain over i, so a logit's bits do not depend on the vector width.
// Dense, scan and decode rows all go through it, one query at a time or many: a query's bits never
// depend on the others. Vector width is chosen at run time (Highway, SSE4 to AVX-512).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runner/base/dtype.h"

namespace kvscope::cpu {

struct QueryState {          // online-softmax state of one query head of one row
  const float* q = nullptr;  // [head_dim] rotated and scaled by 1/√head_dim
  float* out = nullptr;      // [head_dim] Σ p v, not yet divided by sum
  float max = 0.0F;          // meaningful once sum > 0
  float sum = 0.0F;
  float* logits = nullptr;  // optional: where this page's logits go, [live]
};

struct PageView {
  const std::byte* keys = nullptr;    // [head_dim][kPageSlots]
  const std::byte* values = nullptr;  // [kPageSlots][head_dim]
  DType key_dtype = DType::kF32;
  DType value_dtype = DType::kF32;
  int live = 0;  // slots 0 … live-1 take part, ≥ 1
};

// Advances every query over one page. `first` (no page seen yet) is sum == 0.
void attend_page(std::span<QueryState> queries, const PageView& page, int head_dim);

// Logits only: z[q][live] at logits[q] of each state; softmax state untouched.
void page_logits(std::span<QueryState> queries, const PageView& page, int head_dim);

// out[i] = exp(logits[i] − max) · (1 / sum).
void probabilities(std::span<const float> logits, float max, float sum, float* out);

// acc[i] += weight · exp(logits[i] − lse).
void accumulate_weights(std::span<const float> logits, float lse, float weight, float* acc);

// y = x · s
void scale_row(float* x, int n, float s);

// Writes a page's keys rotated by the slots' ranks: out [head_dim][kPageSlots] f32. cos, sin:
// [head_dim/2][n_positions].
void rotate_page(const std::byte* keys, DType dtype, int head_dim, const float* cos,
                 const float* sin, int n_positions, const int* ranks, int live, float* out);

std::string vector_target();  // "AVX3_ZEN4", "AVX2", …

}  // namespace kvscope::cpu
