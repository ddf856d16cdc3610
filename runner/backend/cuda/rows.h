// Kernels that bring keys and values from rows of projections into pages, and queries on their way.
// Pointers are device-visible, calls asynchronous on `stream`.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

// Consecutive tokens of all KV heads of a layer: row r's keys and values (raw projections at qkv +
// r · row_floats) go to slot first_slot + r of each head, rotated to first_position + r, or as they
// are where first_position is -1. heads: [n_kv_heads].
struct AppendRows {
  const HeadSlots* heads = nullptr;  // device-visible
  const float* qkv = nullptr;
  int row_floats = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int n_rows = 0;
  int first_slot = 0;
  int first_position = 0;
};
void append_rows(const AppendRows& job, PageLayout layout, RopeRows rope, cudaStream_t stream);

// Rotated and scaled queries: out [n_rows][n_heads][head_dim] from rows qkv + r · row_floats; row r
// is turned to first_angle + r. Where the layout is bf16 they are rounded to bf16 (attend_page.h).
struct QueryRows {
  const float* qkv = nullptr;
  std::size_t row_floats = 0;
  int n_heads = 0;
  int n_rows = 0;
  int first_angle = 0;
  float scale = 1.0F;
  bool round_to_bf16 = false;
  float* out = nullptr;
};
void rotate_queries(const QueryRows& job, int head_dim, RopeRows rope, cudaStream_t stream);

}  // namespace kvscope::cuda
