// The one attention arithmetic (architecture.md §3): blocks of up to kBlockPages pages, in slot
// order. Per block and query head:
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
// depend on the others. bf16 pages round q and p to bf16 and sum in float32, two products a step:
// by vdpbf16ps where the processor has it (AVX-512-BF16). Otherwise vector width is chosen at run
// time (Highway, SSE4 to AVX-512).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runner/base/dtype.h"

namespace kvscope::cpu {

// A softmax step a block and not a page: its reductions and the rescaling of o cost as much as half
// a page's products.
inline constexpr int kBlockPages = 4;

struct QueryState {          // online-softmax state of one query head of one row
  const float* q = nullptr;  // [head_dim] rotated and scaled by 1/√head_dim
  float* out = nullptr;      // [head_dim] Σ p v, not yet divided by sum
  float max = 0.0F;          // meaningful once sum > 0
  float sum = 0.0F;
  int live = 0;              // slots of the block that this query sees
  float* logits = nullptr;   // optional: where the block's logits go, [live]
  float* weights = nullptr;  // optional: where the block's p go, [live]
  // Optional, [live]: slots at a position before first_seen have left the query's window; they get
  // the logit kUnseen and weight 0. At least one slot of the block is seen where p is wanted.
  const std::int32_t* positions = nullptr;
  std::int32_t first_seen = 0;
};

// Finite, so that a distance between two of them is; e to it is 0.
inline constexpr float kUnseen = -1e30F;

struct PageView {
  const std::byte* keys = nullptr;  // as PageShape lays them out; float32 [head_dim][kPageSlots] if
                                    // keys_rotated
  const std::byte* values = nullptr;
  DType dtype = DType::kF32;
  bool keys_rotated = false;  // a float32 copy, rotated at read (cache-relative positions)
  int live = 0;               // slots that are written, ≥ 1
  const std::byte* next_keys = nullptr;  // optional: of the page that will be read after it
};

// Advances every query over one block. `first` (no block seen yet) is sum == 0. pages: ≤
// kBlockPages, all of one kind.
void attend_block(std::span<QueryState> queries, std::span<const PageView> pages, int head_dim);

// Logits only: z[q][live] at logits[q] of each state; softmax state untouched.
void block_logits(std::span<const QueryState> queries, std::span<const PageView> pages,
                  int head_dim);

}  // namespace kvscope::cpu
