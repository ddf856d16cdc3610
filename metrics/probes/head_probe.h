// The attention probe of one (layer, KV head): one thread at a time, own scratch, nothing shared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "metrics/probes/hit_rate.h"
#include "metrics/probes/probe_summary.h"
#include "metrics/probes/rebound_events.h"
#include "metrics/probes/weight_history.h"
#include "metrics/stats/running_stat.h"
#include "runner/engine/probe_sink.h"

namespace kvscope {

struct AttentionProbeConfig {
  ReboundRule rebound = {};
  int history_rows = 32;  // w_h of policies.md 8.1
  // Resident tokens that the policy could not have evicted: they prove no eviction wrongful.
  int protected_sinks = 0;   // original positions below
  int protected_recent = 1;  // the newest tokens, the row's own included
  // Rows at earlier positions move history and events' state but no statistic. For an in-stream
  // policy that is scored from here on.
  int first_counted_position = 0;
};

// What one HeadProbe counted; fields as in ProbeSummary.
struct HeadMeasurements {
  struct Metric {
    RunningStat overall;
    std::vector<RunningStat> by_step_bin;
    void add(double value, int bin);
  };

  Metric rebound_mass;
  Metric hit_at_32;
  Metric hit_at_p90;
  Metric mass_hit;
  ReboundHistogram rebound_mass_histogram{};
  Hits top_keys;
  std::int64_t rebound_events = 0;
  std::int64_t wrongful_evictions = 0;
  std::int64_t ghost_steps = 0;
};

// Weights here are shares of full attention, a* over V ∪ E, averaged over the group's query heads:
// ghosts and residents, before and after an eviction, are on one scale. Before the first eviction
// this is the model's own softmax.
class HeadProbe {
 public:
  HeadProbe(const AttentionProbeConfig& config, int group_size)
      : config_(config), group_size_(group_size), history_(config.history_rows) {}

  // The functions of ProbeSink.
  void prompt_cut(int prompt_tokens, std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const float> resident_recent_mean);
  void attention_row(const AttentionRow& row);
  void evicted(int slot, int last_slot);

  const HeadMeasurements& measured() const { return measured_; }
  std::int64_t bytes() const;

 private:
  struct Ghost {
    double recent_mean = 0;  // h̄ at eviction
    bool is_armed = true;
  };

  bool counts(const AttentionRow& row) const {
    return row.position >= config_.first_counted_position;
  }
  void measure(const AttentionRow& row, double lse_visible, double lse_ghosts);
  void finish_group_row(const AttentionRow& row);
  void detect_events(const AttentionRow& row);
  double smallest_evictable_weight(const AttentionRow& row) const;

  AttentionProbeConfig config_;
  int group_size_;
  WeightHistory history_;
  std::vector<Ghost> ghosts_;  // [n_ghosts] order of eviction
  std::optional<std::int64_t> first_step_position_;

  HeadMeasurements measured_;

  // Of the row at hand.
  bool group_row_is_finite_ = true;
  HitRate hit_rate_;
  std::vector<float> visible_weights_;  // [n_visible] of one query head
  std::vector<float> ghost_weights_;    // [n_ghosts]
  std::vector<float> visible_mean_;     // [n_visible] over the group so far
  std::vector<float> ghost_mean_;       // [n_ghosts]
};

}  // namespace kvscope
