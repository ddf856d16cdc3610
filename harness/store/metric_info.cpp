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
    {"nll_nats_per_word", "nats", "continuous", "lower",
     "Negative log-likelihood of the scored text over its words; word perplexity is the "
     "exponential."},
    {"bits_per_byte", "bits", "continuous", "lower",
     "Negative log-likelihood of the scored text in bits over its bytes."},
    {"recall", "ratio", "binary", "higher", "1 if the answer holds the hidden value, else 0."},
    {"gold_nll_nats", "nats", "continuous", "lower",
     "Mean negative log-likelihood of the gold answer's tokens."},
    {"kl_full_nats", "nats", "continuous", "lower",
     "Mean KL divergence of the next-token distribution from the full cache's, on the same "
     "tokens."},
    {"kl_full_p50_nats", "nats", "continuous", "lower",
     "Median over a sample's predictions of that divergence."},
    {"kl_full_p99_nats", "nats", "continuous", "lower",
     "The divergence that 99 % of a sample's predictions do not exceed."},
    {"kl_full_max_nats", "nats", "continuous", "lower",
     "Largest divergence of a sample's predictions."},
    {"top1_agreement", "ratio", "continuous", "higher",
     "Share of predictions whose most likely token is the full cache's."},
    {"rebound_mass_in_bursts", "ratio", "continuous", "lower",
     "Rebound mass of the rows after an alarm, which are in no other mean."},
    {"delta_gold_nll_nats", "nats", "continuous", "lower",
     "NLL of the gold answer's tokens minus the full cache's, mean."},
    {"first_divergence_step", "tokens", "continuous", "higher",
     "Tokens of the free answer before it leaves the full cache's; all of them if it never does."},
    {"evidence_survival", "ratio", "continuous", "higher",
     "Share of the asked-for fact's keys and values that are cached at the end of the answer."},
    {"evidence_survival_cut", "ratio", "continuous", "higher",
     "The same right after the selection at the prompt's end."},
    {"answer_agreement", "ratio", "binary", "higher",
     "1 if the answer is the full cache's, token for token, else 0."},
    {"kv_peak_bytes", "bytes", "continuous", "lower",
     "Most bytes of keys, values and metadata held at once, prefill and decode."},
    {"kv_prefill_peak_bytes", "bytes", "continuous", "lower",
     "Most bytes of keys, values and metadata held during the prefill."},
    {"kv_decode_peak_bytes", "bytes", "continuous", "lower",
     "Most bytes of keys, values and metadata held after the prefill."},
    {"kv_steady_bytes", "bytes", "continuous", "lower",
     "Bytes of keys, values and metadata held after the last selection."},
    {"kv_fragmentation", "ratio", "continuous", "lower",
     "Share of the bytes of keys and values held at the end that no live token needs."},
    {"page_occupancy", "ratio", "continuous", "higher",
     "Share of the slots of all pages held at the end that a live token fills."},
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
    {"hit_at_50_mass", "ratio", "continuous", "higher",
     "Share of the smallest set of keys holding 50 % of attention that is still cached, mean."},
    {"hit_at_99_mass", "ratio", "continuous", "higher",
     "Share of the smallest set of keys holding 99 % of attention that is still cached, mean."},
    {"mass_at_90_mass", "ratio", "continuous", "higher",
     "Share of that attention, of the smallest set holding 90 % of it, that is on cached keys."},
    {"nontrivial_hit_at_32", "ratio", "continuous", "higher",
     "Share of the 32 keys with most attention outside sinks and the recent window still cached."},
    {"nontrivial_mass_hit", "ratio", "continuous", "higher",
     "Share of the attention outside sinks and the recent window that is on cached keys, mean."},
    {"output_perturbation", "ratio", "continuous", "lower",
     "Distance of a head's output from full attention's, relative to the latter's size, mean."},
    {"delta_normalised_entropy_full", "ratio", "continuous", "none",
     "Normalised entropy of attention minus that of full attention in the same row, mean."},
    {"entropy_nats", "nats", "continuous", "none",
     "Entropy of attention over the cached keys, mean."},
    {"effective_tokens", "tokens", "continuous", "none",
     "Exponential of that entropy: over how many tokens attention is spread, mean."},
    {"normalised_entropy", "ratio", "continuous", "none",
     "Entropy of attention over the logarithm of the number of cached keys, mean."},
    {"delta_normalised_entropy", "ratio", "continuous", "none",
     "Normalised entropy of attention minus its average before the first eviction, mean."},
    {"largest_weight", "ratio", "continuous", "none", "Largest attention weight of a row, mean."},
    {"sink_share", "ratio", "continuous", "none",
     "Share of attention on the first 4 positions, mean."},
    {"recent_share", "ratio", "continuous", "none",
     "Share of attention on the newest 32 positions, mean."},
    {"diagnosed_healthy", "ratio", "continuous", "higher",
     "Share of rows where what was evicted has little attention or changes nothing."},
    {"diagnosed_wrong_place", "ratio", "continuous", "lower",
     "Share of rows where other tokens in the same budget would have kept most of what was lost."},
    {"diagnosed_too_much", "ratio", "continuous", "lower",
     "Share of rows where only a larger budget would have kept most of what was lost."},
    {"ghosts_needed", "tokens", "continuous", "lower",
     "Evicted tokens that hold 80 % of the rebound mass, mean of rows that are not healthy."},
    {"spare_slots", "tokens", "continuous", "none",
     "Cached tokens that together weigh a tenth of the rebound mass, mean of such rows."},
    {"suggested_budget_tokens", "tokens", "continuous", "none",
     "Tokens a head would have needed, mean of rows where the budget was too small."},
    {"key_token_drop", "ratio", "continuous", "lower",
     "Attention on the prompt's key tokens minus what the arm has on those it kept, mean."},
    {"steps_to_first_event", "tokens", "continuous", "higher",
     "Tokens from a token's eviction until it first became important again, mean."},
    {"eviction_age_tokens", "tokens", "continuous", "none",
     "Tokens between an evicted token and the row after which it left, mean."},
    {"rebound_events", "1", "count", "lower",
     "Times an evicted token would have become important again."},
    {"rebound_events_per_1k", "1", "continuous", "lower",
     "Rebound events per 1000 steps of an evicted token."},
    {"event_mass_share", "ratio", "continuous", "lower",
     "Share of the rebound mass that is in rebound events."},
    {"wrongful_evictions", "1", "count", "lower",
     "Rebound events of tokens heavier than one that could have left in their place."},
    {"ghost_coverage", "ratio", "continuous", "none",
     "Share of the evicted tokens that probes still remembered when they looked."},
    {"ghost_logit_bound", "nats", "continuous", "none",
     "Largest error of an evicted token's logit, where its key is remembered as int8."},
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
