#include "metrics/probes/attention_probe.h"

#include <algorithm>

namespace kvscope {
namespace {

void merge_head(const HeadMeasurements::Metric& head, int layer, ProbeMetric& metric) {
  metric.by_layer[std::size_t(layer)].merge(head.overall);
  if (metric.by_step_bin.size() < head.by_step_bin.size()) {
    metric.by_step_bin.resize(head.by_step_bin.size());
  }
  for (std::size_t bin = 0; bin < head.by_step_bin.size(); ++bin) {
    metric.by_step_bin[bin].merge(head.by_step_bin[bin]);
  }
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
                                std::span<const std::int32_t> /*resident_positions*/,
                                std::span<const float> resident_recent_mean) {
  head(layer, kv_head)
      .prompt_cut(prompt_tokens, ghost_positions, ghost_recent_mean, resident_recent_mean);
}

void AttentionProbe::attention_row(const AttentionRow& row) {
  head(row.layer, row.kv_head).attention_row(row);
}

void AttentionProbe::evicted(int layer, int kv_head, int /*position*/, int slot, int last_slot) {
  head(layer, kv_head).evicted(slot, last_slot);
}

ProbeSummary AttentionProbe::summary() const {
  ProbeSummary result;
  for (ProbeMetric* metric :
       {&result.rebound_mass, &result.hit_at_32, &result.hit_at_p90, &result.mass_hit}) {
    metric->by_layer.resize(std::size_t(shape_.n_layers));
  }
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const HeadMeasurements& head = heads_[i].measured();
    const int layer = int(i) / shape_.n_kv_heads;
    merge_head(head.rebound_mass, layer, result.rebound_mass);
    merge_head(head.hit_at_32, layer, result.hit_at_32);
    merge_head(head.hit_at_p90, layer, result.hit_at_p90);
    merge_head(head.mass_hit, layer, result.mass_hit);
    for (std::size_t bucket = 0; bucket < result.rebound_mass_histogram.size(); ++bucket) {
      result.rebound_mass_histogram[bucket] += head.rebound_mass_histogram[bucket];
    }
    result.top_key_hits += head.top_keys.hits;
    result.top_key_misses += head.top_keys.of - head.top_keys.hits;
    result.rebound_events += head.rebound_events;
    result.wrongful_evictions += head.wrongful_evictions;
    result.ghost_steps += head.ghost_steps;
  }
  for (ProbeMetric* metric :
       {&result.rebound_mass, &result.hit_at_32, &result.hit_at_p90, &result.mass_hit}) {
    for (const RunningStat& layer : metric->by_layer) metric->overall.merge(layer);
  }
  return result;
}

std::int64_t AttentionProbe::bytes() const {
  std::int64_t total = 0;
  for (const HeadProbe& head : heads_) total += head.bytes();
  return total;
}

}  // namespace kvscope
