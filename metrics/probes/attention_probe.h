// Watches every attention row of one sequence: rebound, hit rates, events (policies.md 8.1, 8.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/probes/head_probe.h"
#include "metrics/probes/probe_summary.h"
#include "runner/engine/probe_sink.h"

namespace kvscope {

struct AttentionProbeShape {
  int n_layers = 0;
  int n_kv_heads = 0;
  int group_size = 1;  // query heads per KV head; a row is complete with the last of them
};

// Counts only rows of (layer, KV head) pairs that have ghosts: the steps t > B of an in-stream
// policy; of them those from config.first_counted_position on. Steps of the bins count from the
// prompt's end if there was a prompt cut, else from the pair's first row with ghosts; both are step
// 0.
//
// History h̄ of a ghost: the mean of its weight over the last history_rows rows before it left, over
// all of its rows if it lived shorter. After a prompt cut a resident starts as if each row of the
// window had given it resident_recent_mean; each later row takes the place of one of them.
//
// Calls for different pairs may be concurrent, as ProbeSink allows: each pair has its own HeadProbe
// and there are no locks. summary() merges in the order of layer, then KV head, so that its bits do
// not depend on threads.
class AttentionProbe final : public ProbeSink {
 public:
  explicit AttentionProbe(const AttentionProbeShape& shape,
                          const AttentionProbeConfig& config = {});

  void prompt_cut(int layer, int kv_head, int prompt_tokens,
                  std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const std::int32_t> resident_positions,
                  std::span<const float> resident_recent_mean) override;
  void attention_row(const AttentionRow& row) override;
  void evicted(int layer, int kv_head, int position, int slot, int last_slot) override;

  // When no call is under way.
  ProbeSummary summary() const;

  // What one (layer, KV head) has counted so far.
  const HeadMeasurements& measured(int layer, int kv_head) {
    return head(layer, kv_head).measured();
  }

  // Bytes allocated for the history of the residents (about 4 · history_rows per slot) and for the
  // ghosts' state.
  std::int64_t bytes() const;

 private:
  HeadProbe& head(int layer, int kv_head);

  AttentionProbeShape shape_;
  std::vector<HeadProbe> heads_;  // [n_layers][n_kv_heads]
};

}  // namespace kvscope
