// What a probe may see. A sink reads; nothing it does can reach the model's output (tested: bits
// equal with and without).
#pragma once

#include <cstdint>
#include <span>

#include "runner/cache/ghost_memory.h"

namespace kvscope {

// One attention row of one query head: logits z = q·k/√d over everything seen so far, split into
// what was visible and what is evicted (ghosts). Local frame: the arm's own query and keys
// (policies.md 8).
struct AttentionRow {
  int layer = 0;
  int kv_head = 0;
  int query_head = 0;  // within the KV head's group
  int position = 0;    // original position t of the query
  std::span<const float>
      visible_logits;  // [n_visible], slot order; the newest token is the last slot
  std::span<const std::int32_t> visible_positions;  // [n_visible]
  std::span<const float> ghost_logits;              // [n_ghosts], order of eviction
  std::span<const std::int32_t> ghost_positions;    // [n_ghosts]
  std::span<const float> visible_output =
      {};  // [head_dim] o_V of the visible set; empty where not asked
  std::span<const float> ghost_output = {};  // [head_dim] o_E of the ghosts; empty where not asked
  // Largest error of a ghost's logit, from keys rounded to a byte: ‖q‖₁·scale / (2√d) (policies.md
  // 8.8). 0: none.
  float ghost_logit_bound = 0;
  std::int32_t n_forgotten = 0;  // ghosts that are not among these
};

// What a sink asks to see of a row; each includes those before it. The engine computes no more than
// is asked for, and remembers no ghosts in layers where they are not.
enum class RowView : std::uint8_t {
  kNothing,
  kVisible,  // logits of the visible set
  kGhosts,   // and those of the ghosts
  kOutputs,  // and the outputs of both: keys and values of ghosts are remembered
};

// Calls for different (layer, kv_head) may come from different threads at once; for one pair they
// come in order of time: rows of the group's query heads in order, then evictions after the row.
// One sink belongs to one row (sequence) of one arm.
class ProbeSink {
 public:
  virtual ~ProbeSink() = default;
  // The most that any row of the layer asks for: the same during the sink's life. With kNothing the
  // layer runs as if there were no sink; else the sink is told of every cut and eviction.
  virtual RowView layer_view(int /*layer*/) const { return RowView::kGhosts; }
  // Of one row, asked before it attends; not beyond the layer's. A row that asks for nothing is not
  // shown.
  virtual RowView row_view(int layer, int /*kv_head*/, int /*position*/) const {
    return layer_view(layer);
  }
  virtual GhostMemory ghost_memory() const { return {}; }
  // The prompt-end cut. recent_mean: mean weight over the prompt's last rows (history window,
  // policies.md 8.1) of each ghost, group mean; resident_recent_mean: the same for the kept ones,
  // in slot order.
  virtual void prompt_cut(int layer, int kv_head, int prompt_tokens,
                          std::span<const std::int32_t> ghost_positions,
                          std::span<const float> ghost_recent_mean,
                          std::span<const std::int32_t> resident_positions,
                          std::span<const float> resident_recent_mean) = 0;
  virtual void attention_row(const AttentionRow& row) = 0;
  // `slot` leaves; the token of `last_slot` moves into it (equal: the last slot itself left). It
  // becomes the newest ghost.
  virtual void evicted(int layer, int kv_head, int position, int slot, int last_slot) = 0;
};

}  // namespace kvscope
