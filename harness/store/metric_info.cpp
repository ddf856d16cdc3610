#include "harness/store/metric_info.h"

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
    {"string_match_all", "ratio", "continuous", "higher",
     "Share of the values asked for that occur in the answer, whatever their case (RULER)."},
    {"exact_match", "ratio", "binary", "higher",
     "1 if the normalised answer equals one of the gold answers, else 0."},
    {"token_f1", "ratio", "continuous", "higher",
     "Harmonic mean of precision and recall of the answer's words, best gold answer."},
    {"gold_nll_nats", "nats", "continuous", "lower",
     "Mean negative log-likelihood of the gold answer's tokens."},
    {"kl_full_nats", "nats", "continuous", "lower",
     "Mean KL divergence of the next-token distribution from the full cache's, on the same "
     "tokens."},
    {"top1_agreement", "ratio", "continuous", "higher",
     "Share of predictions whose most likely token is the full cache's."},
    {"answer_agreement", "ratio", "binary", "higher",
     "1 if the answer is the full cache's, token for token, else 0."},
    {"first_divergence", "tokens", "continuous", "higher",
     "Tokens of the answer before the first that differs from the full cache's; all if none does."},
    {"rebound_mass", "ratio", "continuous", "lower",
     "Attention that evicted tokens would have received had they stayed (local frame), mean."},
    {"hit_at_32", "ratio", "continuous", "higher",
     "Share of the 32 keys with most attention that are still cached (local frame), mean."},
    {"hit_at_90_mass", "ratio", "continuous", "higher",
     "Share of the smallest set of keys holding 90 % of attention that is still cached, mean."},
    {"mass_hit", "ratio", "continuous", "higher",
     "Share of attention on cached keys: one minus the rebound mass, mean."},
    {"rebound_events", "1", "count", "lower",
     "Times an evicted token would have become important again."},
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

}  // namespace

std::span<const MetricInfo> metric_infos() { return kMetrics; }

const MetricInfo* find_metric(std::string_view name) {
  for (const MetricInfo& metric : kMetrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

}  // namespace kvscope
