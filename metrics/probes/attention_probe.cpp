#include "metrics/probes/attention_probe.h"

#include <algorithm>

namespace kvscope {
namespace {

// The head's steps in order, so that bits depend on what it measured alone.
RunningStat all_steps(const HeadMetric& head) {
  RunningStat all;
  for (const RunningStat& bin : head.by_step_bin) all.merge(bin);
  return all;
}

void merge_head(const HeadMetric& head, int layer, int kv_head, Worst worst, ProbeMetric& metric) {
  const RunningStat all = all_steps(head);
  metric.by_layer[std::size_t(layer)].merge(all);
  if (metric.by_step_bin.size() < head.by_step_bin.size()) {
    metric.by_step_bin.resize(head.by_step_bin.size());
  }
  for (std::size_t bin = 0; bin < head.by_step_bin.size(); ++bin) {
    metric.by_step_bin[bin].merge(head.by_step_bin[bin]);
  }
  metric.sketch.merge(head.sketch);
  if (all.n > 0) metric.take_worse({all.mean, layer, kv_head}, worst);
}

void add_counts(const HeadMeasurements& head, ProbeSummary& to) {
  for (std::size_t bucket = 0; bucket < to.rebound_mass_histogram.size(); ++bucket) {
    to.rebound_mass_histogram[bucket] += head.rebound_mass_histogram[bucket];
  }
  to.top_key_hits += head.top_keys.hits;
  to.top_key_misses += head.top_keys.of - head.top_keys.hits;
  to.rebound_events += head.rebound_events;
  to.wrongful_evictions += head.wrongful_evictions;
  to.ghost_steps += head.ghost_steps;
  to.event_mass += head.event_mass;
  to.group_rebound_mass += head.group_rebound_mass;
}

}  // namespace

AttentionProbe::AttentionProbe(const AttentionProbeShape& shape, const AttentionProbeConfig& config)
    : shape_(shape),
      heads_(std::size_t(shape.n_layers) * std::size_t(shape.n_kv_heads),
             HeadProbe(config, shape.group_size)) {}

HeadProbe& AttentionProbe::head(int layer, int kv_head) {
  return heads_[std::size_t(layer) * std::size_t(shape_.n_kv_heads) + std::size_t(kv_head)];
}

void AttentionProbe::prompt_cut(int layer, int kv_head, int prompt_tokens,
                                std::span<const std::int32_t> ghost_positions,
                                std::span<const float> ghost_recent_mean,
                                std::span<const std::int32_t> resident_positions,
                                std::span<const float> resident_recent_mean) {
  head(layer, kv_head)
      .prompt_cut(prompt_tokens, ghost_positions, ghost_recent_mean, resident_positions,
                  resident_recent_mean);
}

void AttentionProbe::attention_row(const AttentionRow& row) {
  head(row.layer, row.kv_head).attention_row(row);
}

void AttentionProbe::evicted(int layer, int kv_head, int position, int slot, int last_slot) {
  head(layer, kv_head).evicted(position, slot, last_slot);
}

ProbeSummary AttentionProbe::summary() const {
  constexpr auto kOfHead = named_quantities<HeadMetric>();
  constexpr auto kOfSummary = named_quantities<ProbeMetric>();
  ProbeSummary result;
  for (std::size_t q = 0; q < kOfSummary.size(); ++q) {
    ProbeMetric& metric = result.*kOfSummary[q].member;
    metric.by_layer.resize(std::size_t(shape_.n_layers));
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      merge_head(heads_[i].measured().*kOfHead[q].member, int(i) / shape_.n_kv_heads,
                 int(i) % shape_.n_kv_heads, kOfSummary[q].worst, metric);
    }
    for (const RunningStat& layer : metric.by_layer) metric.overall.merge(layer);
  }
  for (const HeadProbe& head : heads_) add_counts(head.measured(), result);
  return result;
}

std::int64_t AttentionProbe::bytes() const {
  std::int64_t total = 0;
  for (const HeadProbe& head : heads_) total += head.bytes();
  return total;
}

}  // namespace kvscope
