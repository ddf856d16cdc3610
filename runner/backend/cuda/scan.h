// The scan and the decode step with a rule as data (policies.md 1.2: append, attend, observe,
// select, evict), for many selection units at once. Arithmetic of attention: attend_page.h; of
// statistics and victims: runner/backend/cpu/victims.cpp, decision for decision. Pointers are
// device-visible, calls asynchronous on `stream`.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"
#include "runner/policies/scan_rule.h"

namespace kvscope::cuda {

enum class SlotPositions : std::uint8_t { kAbsolute, kCacheRelative, kRerotate };

// One KV head of a unit. Arrays have room for the most slots that the rows will need.
struct ScanHead {
  std::byte* const* pages = nullptr;  // pages of slots 0 …, safe to write
  std::int32_t* positions = nullptr;  // original position by slot
  std::int32_t* rank = nullptr;       // by slot; nullptr with absolute positions
};

struct ScanUnit {
  const ScanHead* heads = nullptr;  // [n_kv_heads]
  int n_kv_heads = 1;               // 1, or all of the layer
  int first_kv_head = 0;
  int layer = 0;
  int n_slots = 0;         // of each head, before the first row
  int first_position = 0;  // row r has original position first_position + r
  int n_rows = 0;
  int rows_before = 0;  // `chunk` counts over the stretch (backend.h ScanJob)
  int rows_after = 0;
  int chunk = 1;
  SlotPositions positions = SlotPositions::kAbsolute;
  ScanRule rule;  // evicts() false: grow. Never kHost
  // State by slot of the unit (its first head); nullptr where the rule has none.
  float* statistic = nullptr;
  std::uint32_t* count = nullptr;
  std::uint64_t* priority = nullptr;
  const float* qkv = nullptr;  // row r at qkv + r · qkv_stride: raw projections of the whole layer
  std::size_t qkv_stride = 0;
  float* out = nullptr;  // row r at out + r · out_stride: [n_heads · head_dim] of the whole layer
  std::size_t out_stride = 0;
  // Scratch of the unit where the rule evicts, [n_kv_heads · group] rows of most_slots each: logits
  // of a row, overwritten by what the rule makes of them.
  float* logits = nullptr;
  std::int32_t* victims = nullptr;  // [most_slots]
  int most_slots = 0;               // visible in any row, its own token included
  int heads_before = 0;             // decode_step: n_kv_heads of the units before it, summed
};

struct ScanShape {
  int n_heads = 0;
  int n_kv_heads = 0;
  PageLayout layout;
  RopeRows rope;
};

// All rows of each unit, one block a unit. After it each head holds what the rule leaves, slots
// moved as HeadCache::remove_slot moves them (victims by descending slot, the last slot into each
// hole).
void scan(const ScanUnit* units, int n_units, const ScanShape& shape, cudaStream_t stream);

// The same for units of one row each, with the attention spread over blocks: one block a chunk of
// slots, then one a query head that merges them, then one a unit that observes and evicts. The same
// bits as scan(). most_slots: of any unit; n_heads_total: Σ n_kv_heads of the units. partials:
// [decode_partial_floats(…)].
std::size_t decode_partial_floats(int n_heads_total, int group, int head_dim, int most_slots);
void decode_step(const ScanUnit* units, int n_units, int n_heads_total, int most_slots,
                 const ScanShape& shape, float* partials, cudaStream_t stream);

// Attention alone of one row a job: logits and probabilities by slot, for rows whose observing and
// evicting is the host's. The same bits as scan()'s. partials: [decode_partial_floats(n_rows, …)].
struct AttendRow {
  HeadSlots slots;           // the row's own token included
  const float* q = nullptr;  // [group][head_dim] rotated, scaled, rounded (rotate_queries)
  float* out = nullptr;      // [group][head_dim]
  float* logits = nullptr;   // optional [group][n_slots]
  float* weights = nullptr;  // optional [group][n_slots], only with logits
};
void attend_rows(const AttendRow* rows, int n_rows, int group, int most_slots, PageLayout layout,
                 RopeRows rope, float* partials, cudaStream_t stream);

// Logits alone: of ghosts, perhaps none. AttendRow with out and weights unused.
void row_logits(const AttendRow* rows, int n_rows, int group, int most_slots, PageLayout layout,
                RopeRows rope, cudaStream_t stream);

}  // namespace kvscope::cuda
