#include "harness/store/metric_info.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "metrics/quality/scorers.h"

namespace kvscope {
namespace {

constexpr MetricInfo kMetrics[] = {
    {"nll_nats", "nats", "continuous", "lower",
     "Mean negative log-likelihood of the scored tokens; perplexity is its exponential."},
    {"recall", "ratio", "binary", "higher", "1 if the answer holds the hidden value, else 0."},
    {"gold_nll_nats", "nats", "continuous", "lower",
     "Mean negative log-likelihood of the gold answer's tokens."},
    {"kl_full_nats", "nats", "continuous", "lower",
     "Mean KL divergence of the next-token distribution from the full cache's, on the same "
     "tokens."},
    {"top1_agreement", "ratio", "continuous", "higher",
     "Share of predictions whose most likely token is the full cache's."},
    {"rebound_mass_in_bursts", "ratio", "continuous", "lower",
     "Rebound mass of the rows after an alarm, which are in no other mean."},
    {"kv_peak_bytes", "bytes", "continuous", "lower",
     "Most bytes of keys, values and metadata held at once, prefill and decode."},
    {"kv_prefill_peak_bytes", "bytes", "continuous", "lower",
     "Most bytes of keys, values and metadata held during the prefill."},
    {"kv_decode_peak_bytes", "bytes", "continuous", "lower",
     "Most bytes of keys, values and metadata held after the prefill."},
    {"kv_steady_bytes", "bytes", "continuous", "lower",
     "Bytes of keys, values and metadata held after the last selection."},
    {"resident_tokens", "tokens", "continuous", "lower",
     "Tokens held at the end, mean over layers and KV heads."},
    {"prefill_density", "ratio", "continuous", "lower",
     "Share of the prompt's causal attention entries that sparse rows compute."},
    {"prefill_recall", "ratio", "continuous", "higher",
     "Dense probability of the prompt's last rows on what sparse rows attend to."},
};

// Of attention probes: each also as an estimate from sampled rows.
constexpr MetricInfo kProbeMetrics[] = {
    {"rebound_mass", "ratio", "continuous", "lower",
     "Attention that evicted tokens would have received had they stayed (local frame), mean."},
    {"hit_at_32", "ratio", "continuous", "higher",
     "Share of the 32 keys with most attention that are still cached (local frame), mean."},
    {"hit_at_90_mass", "ratio", "continuous", "higher",
     "Share of the smallest set of keys holding 90 % of attention that is still cached, mean."},
    {"mass_hit", "ratio", "continuous", "higher",
     "Share of attention on cached keys: one minus the rebound mass, mean."},
    {"ghost_coverage", "ratio", "continuous", "none",
     "Share of the evicted tokens that probes still remembered when they looked."},
    {"ghost_logit_bound", "nats", "continuous", "none",
     "Largest error of an evicted token's logit, where its key is remembered as int8."},
    {"rebound_events", "1", "count", "lower",
     "Times an evicted token would have become important again."},
};

// The names and texts of the estimates live as long as the table.
struct Table {
  std::vector<MetricInfo> metrics{std::begin(kMetrics), std::end(kMetrics)};
  std::deque<std::string> texts;

  Table() {
    for (const MetricInfo& metric : kProbeMetrics) metrics.push_back(metric);
    for (MetricInfo metric : kProbeMetrics) {
      metric.name = texts.emplace_back(std::string(metric.name) + std::string(kSampledSuffix));
      metric.help = texts.emplace_back(std::string(metric.help) +
                                       " From the layers and steps of the sampling plan.");
      metrics.push_back(metric);
    }
    // Scores of published benchmarks, under their authors' names.
    for (const ScorerInfo& scorer : scorer_infos()) {
      if (std::ranges::find(metrics, scorer.name, &MetricInfo::name) != metrics.end()) continue;
      metrics.push_back({scorer.name, "ratio", scorer.kind, "higher", scorer.help});
    }
  }
};

}  // namespace

std::span<const MetricInfo> metric_infos() {
  static const Table kTable;
  return kTable.metrics;
}

const MetricInfo* find_metric(std::string_view name) {
  for (const MetricInfo& metric : metric_infos()) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

}  // namespace kvscope
