// Kernels that move keys and values between rows of projections and pages. Pointers are
// device-visible, calls asynchronous on `stream`.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

// One token of one KV head to be written into a slot.
struct SlotWrite {
  const float* key = nullptr;    // [head_dim] before RoPE
  const float* value = nullptr;  // [head_dim]; not read where pages have no values
  std::byte* page = nullptr;
  std::int32_t slot = 0;    // within the page
  std::int32_t angle = -1;  // rotate the key to this position; -1: as it is
};

// Writes n slots. Two of them never share a slot; they may share a page (and, in bf16 pages, the
// word that holds two slots' values: both must survive).
void write_slots(const SlotWrite* writes, int n, PageLayout layout, RopeRows rope,
                 cudaStream_t stream);

// The same for consecutive tokens of all KV heads of a layer: row r's keys and values (raw
// projections at qkv + r · row_floats) go to slot first_slot + r of each head, rotated to
// first_position + r, or as they are where first_position is -1. heads: [n_kv_heads].
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

// One slot copied between pages, bit for bit between layouts stored alike, else as the value that
// is read back; values only where both have them (page_slots.h copy_slot). No copy of a call reads
// a slot that another one writes.
struct SlotCopy {
  const std::byte* from = nullptr;  // page
  std::byte* to = nullptr;          // page, never the same slot
  std::int32_t from_slot = 0;
  std::int32_t to_slot = 0;
};
void copy_slots(const SlotCopy* copies, int n, PageLayout from, PageLayout to, cudaStream_t stream);

// A stored key to be turned back by `steps` ≥ 0 positions (re-rotation after an eviction): read,
// turned, encoded anew. No two of a call are of one slot.
struct SlotTurn {
  std::byte* page = nullptr;
  std::int32_t slot = 0;
  std::int32_t steps = 0;
};
void turn_back_slots(const SlotTurn* turns, int n, PageLayout layout, RopeRows rope,
                     cudaStream_t stream);

// All slots of each head, whatever their format, into float32 pages (layout kF32 of the same
// head_dim, values where `layout` has them) at the same slots; unrotated keys stay so. heads:
// [n_heads], out_pages: [n_heads][ceil(n_slots / kPageSlots)].
void widen_slots(const HeadSlots* heads, std::byte* const* const* out_pages, int n_heads,
                 PageLayout layout, cudaStream_t stream);

}  // namespace kvscope::cuda
