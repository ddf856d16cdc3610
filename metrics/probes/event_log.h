// Single rebound events with their place, so that a failure can be traced to the tokens that were
// missed (policies.md 8.1). Finds what AttentionProbe counts, by the same rule and configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "metrics/probes/attention_probe.h"
#include "metrics/probes/group_weights.h"
#include "metrics/probes/weight_history.h"
#include "runner/engine/probe_sink.h"

namespace kvscope {

struct ReboundEvent {
  int layer = 0;
  int kv_head = 0;
  int position = 0;    // of the evicted token
  int evicted_at = 0;  // position of the last row that still saw it
  int rebound_at = 0;  // position of the row that would have wanted it back
  int step = 0;        // rows after the prompt's end; in stream after the pair's first eviction
  float mass = 0.0F;   // ã: its share of full attention, mean over the group's query heads
  int rank = 0;        // among all tokens seen, 1 the heaviest
  bool is_wrongful = false;  // an evictable resident token weighed less

  bool operator==(const ReboundEvent&) const = default;
};

// The heavier first; equal masses by place, so that the order is one.
bool is_heavier(const ReboundEvent& a, const ReboundEvent& b);

// Of one (layer, KV head).
class HeadEvents {
 public:
  HeadEvents(const AttentionProbeConfig& config, int group_size, std::size_t most)
      : config_(config), most_(most), weights_(group_size), history_(config.history_rows) {}

  void prompt_cut(int prompt_tokens, std::span<const float> ghost_recent_mean,
                  std::span<const float> resident_recent_mean);
  void attention_row(const AttentionRow& row);
  void evicted(int slot, int last_slot);

  std::int64_t n_events() const { return n_events_; }
  std::span<const ReboundEvent> events() const { return events_; }  // a heap, the lightest in front

 private:
  struct Ghost {
    double recent_mean = 0;
    int evicted_at = 0;
    bool is_armed = true;
  };
  void detect(const AttentionRow& row);
  double smallest_evictable_weight(const AttentionRow& row) const;
  int rank_of(float mass) const;
  void keep(const ReboundEvent& event);

  AttentionProbeConfig config_;
  std::size_t most_;
  GroupWeights weights_;
  WeightHistory history_;
  std::vector<Ghost> ghosts_;  // [n_ghosts] order of eviction
  int last_row_ = 0;           // position
  std::optional<int> first_step_;
  std::int64_t n_events_ = 0;
  std::vector<ReboundEvent> events_;
};

// Calls for different pairs may be concurrent, as ProbeSink allows. Keeps the `most` heaviest
// events, and as many of each pair until then.
class EventLog final : public ProbeSink {
 public:
  EventLog(const AttentionProbeShape& shape, const AttentionProbeConfig& config, std::size_t most);

  void prompt_cut(int layer, int kv_head, int prompt_tokens,
                  std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const std::int32_t> resident_positions,
                  std::span<const float> resident_recent_mean) override;
  void attention_row(const AttentionRow& row) override;
  void evicted(int layer, int kv_head, int position, int slot, int last_slot) override;

  // When no call is under way.
  std::vector<ReboundEvent> heaviest() const;  // heaviest first
  std::int64_t n_events() const;               // kept or not

 private:
  HeadEvents& head(int layer, int kv_head) {
    return heads_[std::size_t(layer) * std::size_t(n_kv_heads_) + std::size_t(kv_head)];
  }
  int n_kv_heads_;
  std::size_t most_;
  std::vector<HeadEvents> heads_;  // [n_layers][n_kv_heads]
};

}  // namespace kvscope
