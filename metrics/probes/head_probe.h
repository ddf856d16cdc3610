// The attention probe of one (layer, KV head): one thread at a time, own scratch, nothing shared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "metrics/probes/hit_rate.h"
#include "metrics/probes/key_tokens.h"
#include "metrics/probes/probe_summary.h"
#include "metrics/probes/rebound_events.h"
#include "metrics/probes/row_part.h"
#include "metrics/probes/swap_diagnosis.h"
#include "metrics/probes/weight_history.h"
#include "metrics/stats/running_stat.h"
#include "metrics/stats/sketch.h"
#include "runner/engine/probe_sink.h"

namespace kvscope {

struct AttentionProbeConfig {
  ReboundRule rebound = {};
  SwapRule swap = {};
  int history_rows = 32;  // w_h of policies.md 8.1
  // Resident tokens that the policy could not have evicted: they prove no eviction wrongful and are
  // no slots to be had.
  int protected_sinks = 0;   // original positions below
  int protected_recent = 1;  // the newest tokens, the row's own included
  // What every policy keeps, the same for all arms: the non-trivial variants and key tokens leave
  // it out, shares are reported of it.
  int sink_tokens = 4;
  int recent_tokens = 32;
  int diagnosis_every = 4;  // steps between rows that are diagnosed, at least
  // Rows at earlier positions move history and events' state but no statistic. For an in-stream
  // policy that is scored from here on.
  int first_counted_position = 0;
};

struct HeadMetric {
  std::vector<RunningStat> by_step_bin;
  Sketch sketch;
  void add(double value, int bin);
};

// What one HeadProbe counted; fields as in ProbeSummary.
struct HeadMeasurements : ProbeQuantities<HeadMetric> {
  HeadMeasurements();

  ReboundHistogram rebound_mass_histogram{};
  Hits top_keys;
  std::int64_t rebound_events = 0;
  std::int64_t wrongful_evictions = 0;
  std::int64_t ghost_steps = 0;
  double event_mass = 0;
  double group_rebound_mass = 0;
};

// Weights here are shares of full attention, a* over V ∪ E, averaged over the group's query heads:
// ghosts and residents, before and after an eviction, are on one scale. Before the first eviction
// this is the model's own softmax.
class HeadProbe {
 public:
  HeadProbe(const AttentionProbeConfig& config, int group_size);

  // The functions of ProbeSink.
  void prompt_cut(int prompt_tokens, std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const std::int32_t> resident_positions,
                  std::span<const float> resident_recent_mean);
  // A row after an eviction that brings no ghosts' logits moves nothing that is about ghosts; the
  // visible tokens' weights are then shares of what is visible.
  void attention_row(const AttentionRow& row);
  void evicted(int position, int slot, int last_slot);

  const HeadMeasurements& measured() const { return measured_; }
  std::int64_t bytes() const;

 private:
  struct Ghost {
    double recent_mean = 0;    // h̄ at eviction
    std::int32_t left_at = 0;  // the row after which it left
    bool is_armed = true;
    bool has_fired = false;
  };
  // Of the row at hand, over the group's query heads so far.
  struct GroupRow {
    bool is_finite = true;
    bool has_key_tokens = false;
    double key_token_drop = 0;
    double delta = 0;  // output perturbation
    int n_deltas = 0;
  };

  bool counts(int position) const { return position >= config_.first_counted_position; }
  int bin_of(int position) const;
  Universe universe_at(int position) const;
  void measure(const AttentionRow& row, const RowPart& visible, const RowPart& ghosts);
  void measure_hits(const AttentionRow& row, float top_logit, int bin);
  void measure_visible(const AttentionRow& row, const RowPart& visible);
  void finish_group_row(const AttentionRow& row);
  void detect_events(const AttentionRow& row);
  void diagnose(const AttentionRow& row);
  std::span<const float> evictable_weights(const AttentionRow& row);

  AttentionProbeConfig config_;
  int group_size_;
  WeightHistory history_;
  std::vector<Ghost> ghosts_;  // [n_ghosts] order of eviction
  KeyTokens key_tokens_;
  bool has_evicted_ = false;
  std::optional<std::int64_t> first_step_position_;
  std::optional<std::int32_t> next_diagnosis_;  // not before that row
  std::int32_t last_position_ = 0;              // of the last row, or of the prompt
  // Normalised entropy before the first eviction, moving average: [group_size], or empty.
  std::vector<double> entropy_before_;

  HeadMeasurements measured_;

  GroupRow group_row_;
  HitRate hit_rate_;
  std::vector<float> visible_weights_;    // [n_visible] of one query head
  std::vector<float> ghost_weights_;      // [n_ghosts]
  std::vector<float> visible_mean_;       // [n_visible] over the group so far
  std::vector<float> ghost_mean_;         // [n_ghosts]
  std::vector<float> evictable_weights_;  // [those] of visible_mean_
};

}  // namespace kvscope
