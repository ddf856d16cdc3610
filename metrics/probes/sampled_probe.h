// An attention probe behind a sampling plan: shows it the rows of the plan and keeps the rows that
// follow an alarm apart.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "metrics/probes/attention_probe.h"
#include "metrics/probes/row_alarm.h"
#include "metrics/probes/sampling_plan.h"
#include "runner/engine/probe_sink.h"

namespace kvscope {

// Concurrency and order as AttentionProbe's. Alarms and bursts are those of one (layer, KV head),
// so what is looked at does not depend on threads.
class SampledProbe final : public ProbeSink {
 public:
  SampledProbe(const AttentionProbeShape& shape, const AttentionProbeConfig& config,
               SamplingPlan plan);

  RowView layer_view(int layer) const override;
  RowView row_view(int layer, int kv_head, int position) const override;
  GhostMemory ghost_memory() const override { return plan_.ghosts; }
  void prompt_cut(int layer, int kv_head, int prompt_tokens,
                  std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const std::int32_t> resident_positions,
                  std::span<const float> resident_recent_mean) override;
  void attention_row(const AttentionRow& row) override;
  void evicted(int layer, int kv_head, int position, int slot, int last_slot) override;

  const SamplingPlan& plan() const { return plan_; }
  // When no call is under way. Of an incomplete plan, `sampled` is set.
  ProbeSummary summary() const;

 private:
  // Sums over a head's query heads, one entry a row of the plan that has ghosts.
  struct StepSums {
    std::int32_t position = 0;
    std::int64_t n = 0;
    std::array<double, kSampledMetrics> sums{};
  };
  struct Head {
    RowAlarm alarm;
    int burst_end = 0;        // the first position after the burst
    double entropy_nats = 0;  // of the row at hand, over the query heads so far
    double lse_visible = 0;
    std::vector<StepSums> steps;
    RunningStat burst_rebound_mass;
    std::int64_t n_bursts = 0;
    GhostFacts ghosts;
    std::vector<float> weights;
  };

  Head& head(int layer, int kv_head) {
    return heads_[std::size_t(layer) * std::size_t(shape_.n_kv_heads) + std::size_t(kv_head)];
  }
  AttentionProbe& probe_of(int layer) { return layer == plan_.extra_layer ? *extra_ : probe_; }
  void watch(Head& head, const AttentionRow& row);
  void note_step(Head& head, const AttentionRow& row);
  SampledFacts sampled_facts() const;

  AttentionProbeShape shape_;
  int first_counted_position_;
  SamplingPlan plan_;
  AttentionProbe probe_;                 // the plan's layers
  std::optional<AttentionProbe> extra_;  // of the extra layer
  std::vector<Head> heads_;              // [n_layers][n_kv_heads]
};

}  // namespace kvscope
