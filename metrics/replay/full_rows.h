// Full attention of the rows of a replay, once for all arms: what each token weighs and which
// tokens matter most. An arm's hits are then look-ups of what it still sees (policies.md 8.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/oracle/future_mass.h"
#include "runner/engine/probe_sink.h"
#include "runner/trace/trace.h"

namespace kvscope {

// Watches the full cache of one layer at a time (ReplayRequest::full). Calls for different KV heads
// may be concurrent.
class FullRows final : public ProbeSink {
 public:
  // prompt_tokens: 0 in stream. keep_group_means: attention() is wanted.
  FullRows(const TraceFacts& facts, int prompt_tokens, bool keep_group_means);

  struct Row {
    std::span<const float> weights;           // [position + 1] a*, sum 1 up to rounding
    double total = 0.0;                       // their sum
    std::span<const std::int32_t> top_keys;   // the kTopKeys heaviest, all of a shorter row
    std::span<const std::int32_t> mass_keys;  // fewest that hold kHitMassShare of the mass
  };
  // Of the block that the replay is in; query_head within the KV head's group.
  Row row(int kv_head, int query_head, int position) const;

  // Group-mean attention of the layer's rows when the layer is over. In stream the first token is
  // the prompt: its row can lose nothing.
  DecodeAttention<float> attention(int kv_head) const;

  int group_size() const { return group_size_; }
  int n_tokens() const { return n_tokens_; }

  void prompt_cut(int, int, int, std::span<const std::int32_t>, std::span<const float>,
                  std::span<const std::int32_t>, std::span<const float>) override {}
  void attention_row(const AttentionRow& row) override;
  void evicted(int, int, int, int, int) override {}

 private:
  struct Kept {                  // of one query head and row
    std::vector<float> weights;  // [position + 1]
    double total = 0.0;
    std::vector<std::int32_t> top_keys;
    std::vector<std::int32_t> mass_keys;
  };
  struct Scratch {
    std::vector<std::uint64_t> keys;  // [position + 1] in order of weight
  };
  std::size_t place(int kv_head, int query_head, int position) const;
  void choose_keys(std::span<const float> logits, Scratch& scratch, Kept& kept) const;

  int n_tokens_;
  int first_row_;  // of the group means
  int group_size_;
  bool keeps_means_;
  std::vector<Kept> block_;       // [n_kv_heads][group][kReplayBlockRows]
  std::vector<Scratch> scratch_;  // [n_kv_heads]
  std::vector<float> means_;      // [n_kv_heads][n_tokens - first_row][n_tokens]
};

}  // namespace kvscope
