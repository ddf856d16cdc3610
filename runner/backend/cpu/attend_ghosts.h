// What probes ask about the ghosts of one KV head: their logits, and their attention output had
// they stayed and been alone. Kernels' arithmetic for the logits, so that they compare with the
// visible ones'.
#pragma once

#include <span>
#include <vector>

#include "runner/backend/cpu/attend_block.h"
#include "runner/cache/ghost_cache.h"

namespace kvscope::cpu {

// Buffers that one scan reuses from row to row.
class GhostRows {
 public:
  // queries: the q of each query head of the group, with first_seen where positions are set. The
  // result is logits().
  void attend(const GhostCache& ghosts, std::span<const QueryState> queries, int head_dim);

  // The same where logits are known: of all slots of ghosts.prompt() and of ghosts.own(), each
  // [group][slots].
  void take(const GhostCache& ghosts, std::span<const QueryState> queries, int head_dim,
            std::span<const float> prompt, std::span<const float> own);

  // o_E of every query head, from logits() [group][n_ghosts]; needs at least one ghost and their
  // values. The result is outputs() [group][head_dim].
  void weigh_values(const GhostCache& ghosts, int group, int head_dim);

  std::span<const float> logits() const { return logits_; }
  std::span<const float> logit_bounds() const { return bounds_; }  // [group] largest error of each
  std::span<const float> outputs() const { return outputs_; }

 private:
  void attend_prompt(const GhostCache& ghosts, std::span<const QueryState> queries, int head_dim);
  void add_page(const HeadCache& head, int page, std::span<const std::int32_t> slots,
                std::size_t first_ghost, std::size_t n_ghosts, int group, int head_dim);

  void bound_logits(const GhostCache& ghosts, std::span<const QueryState> queries, int head_dim);

  std::vector<float> bounds_;        // [group]
  std::vector<float> logits_;        // [group][n_ghosts]
  std::vector<float> outputs_;       // [group][head_dim]
  std::vector<QueryState> states_;   // [group]
  std::vector<float> block_;         // [group][kBlockPages * kPageSlots]
  std::vector<float> weights_;       // [group][n_ghosts]
  std::vector<float> values_;        // [kPageSlots][head_dim]
  std::vector<float> page_sum_;      // [head_dim]
  std::vector<std::int32_t> lanes_;  // of a page's ghosts
};

}  // namespace kvscope::cpu
