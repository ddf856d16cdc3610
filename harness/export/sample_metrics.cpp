#include "harness/export/sample_metrics.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "harness/store/metric_info.h"

namespace kvscope {
namespace {

using Labels = MetricBook::Labels;

Labels with(Labels labels, std::string name, std::string value) {
  labels[std::move(name)] = std::move(value);
  return labels;
}

// The kinds of the catalogue; the store's are finer.
std::string error_label(std::string_view kind) {
  if (kind == "nonfinite" || kind == "oom" || kind == "io") return std::string(kind);
  return "input";
}

void add_ledger(MetricBook& book, const Labels& arm, const Ledger& ledger, int selection_units) {
  book.add("kvscope_evicted_tokens_total", arm, double(ledger.evicted_tokens));
  book.set("kvscope_kv_cache_resident_tokens", arm, ledger.mean_resident_tokens);
  // Held and dropped positions together are what a full cache would hold.
  const double dropped = double(ledger.evicted_tokens) / selection_units;
  if (const double seen = ledger.mean_resident_tokens + dropped; seen > 0) {
    book.set("kvscope_kv_cache_usage_ratio", arm, ledger.mean_resident_tokens / seen);
  }
  const auto set_bytes = [&](const char* kind, std::int64_t bytes) {
    book.set("kvscope_kv_cache_bytes", with(arm, "kind", kind), double(bytes));
  };
  set_bytes("logical", ledger.steady.logical_bytes);
  set_bytes("physical", ledger.steady.physical_bytes);
  set_bytes("metadata", ledger.steady.metadata_bytes);
  set_bytes("ghost", ledger.ghost_peak_bytes);
  book.set_max("kvscope_kv_cache_peak_bytes", with(arm, "stage", "prefill"),
               double(ledger.prefill_peak.total_bytes()));
  book.set_max("kvscope_kv_cache_peak_bytes", with(arm, "stage", "decode"),
               double(ledger.decode_peak.total_bytes()));
}

// Estimates from sampled rows are series of their own.
Labels sampled(const Labels& labels) { return with(labels, "rows", "sampled"); }

void add_probes(MetricBook& book, const Labels& all_rows, const ProbeSummary& probes) {
  const Labels arm = probes.sampled ? sampled(all_rows) : all_rows;
  for (const RunningStat& layer : probes.mass_hit.by_layer) {
    if (layer.n > 0) book.observe("kvscope_attention_mass_retained_ratio", arm, layer.mean);
  }
  const RunningStat& rebound = probes.rebound_mass.overall;
  book.observe_many("kvscope_attention_rebound_ratio", arm, probes.rebound_mass_histogram,
                    rebound.mean * double(rebound.n));
  book.add("kvscope_attention_rebound_events_total", arm, double(probes.rebound_events));
  book.add("kvscope_cache_top_keys_total", with(arm, "result", "hit"), double(probes.top_key_hits));
  book.add("kvscope_cache_top_keys_total", with(arm, "result", "miss"),
           double(probes.top_key_misses));
  if (rebound.nonfinite > 0) {
    book.add("kvscope_nonfinite_values_total", {{"probe", "attention_mass"}},
             double(rebound.nonfinite));
  }
}

void add_quality(MetricBook& book, const Labels& arm, const std::string& dataset,
                 const SampleOutcome& outcome) {
  if (const auto kl = outcome.metric("kl_full_nats")) {
    book.observe("kvscope_output_kl_divergence_nats", arm, *kl);
  }
  const auto agreement = outcome.metric("top1_agreement");
  if (agreement && outcome.n_compared > 0) {
    const double compared = outcome.n_compared;
    const double matches = std::round(*agreement * compared);
    book.add("kvscope_token_comparisons_total", with(arm, "result", "match"), matches);
    book.add("kvscope_token_comparisons_total", with(arm, "result", "mismatch"),
             compared - matches);
  }
  auto correct = outcome.metric("recall");
  if (!correct) correct = outcome.metric("exact_match");
  if (correct) {
    const Labels labels = with(arm, "dataset", dataset);
    book.add("kvscope_task_results_total", with(labels, "result", "correct"), *correct > 0.5);
    book.add("kvscope_task_results_total", with(labels, "result", "incorrect"), *correct <= 0.5);
  }
}

}  // namespace

void start_arm_counters(MetricBook& book, const Labels& arm, const std::string& dataset) {
  const auto start = [&](const char* family, const Labels& labels) { book.add(family, labels, 0); };
  const auto start_each = [&](const char* family, const Labels& labels, const char* name,
                              std::initializer_list<const char*> values) {
    for (const char* value : values) start(family, with(labels, name, value));
  };
  for (const char* family :
       {"kvscope_prompt_tokens_total", "kvscope_generation_tokens_total",
        "kvscope_evicted_tokens_total", "kvscope_attention_rebound_events_total"}) {
    start(family, arm);
  }
  start_each("kvscope_cache_top_keys_total", arm, "result", {"hit", "miss"});
  start_each("kvscope_token_comparisons_total", arm, "result", {"match", "mismatch"});
  const Labels of_dataset = with(arm, "dataset", dataset);
  start_each("kvscope_samples_total", of_dataset, "status", {"ok", "error", "skipped"});
  start_each("kvscope_task_results_total", of_dataset, "result", {"correct", "incorrect"});
}

void add_sample_metrics(MetricBook& book, const Labels& arm, const std::string& dataset,
                        const SampleOutcome& outcome, int selection_units) {
  book.add("kvscope_samples_total",
           with(with(arm, "dataset", dataset), "status", std::string(name_of(outcome.status))), 1);
  if (outcome.status == OutcomeStatus::kError) {
    book.add("kvscope_errors_total", {{"kind", error_label(outcome.error_kind)}}, 1);
  }
  if (outcome.status != OutcomeStatus::kOk) return;

  book.add("kvscope_prompt_tokens_total", arm, outcome.n_prompt_tokens);
  // Steps that are fed the text's own tokens generate nothing.
  if (outcome.has_output) {
    book.add("kvscope_generation_tokens_total", arm, outcome.n_decode_steps);
  }
  if (outcome.prefill_seconds > 0) {
    book.observe("kvscope_time_to_first_token_seconds", arm, outcome.prefill_seconds);
  }
  if (outcome.decode_seconds_per_step > 0) {
    book.observe("kvscope_inter_token_latency_seconds", arm, outcome.decode_seconds_per_step);
  }
  add_ledger(book, arm, outcome.ledger, selection_units);
  if (outcome.probes) add_probes(book, arm, *outcome.probes);
  add_quality(book, arm, dataset, outcome);
}

void add_result_metrics(MetricBook& book, const Labels& labels,
                        std::span<const ArmMetricRow> metrics) {
  struct Export {
    std::string_view metric;  // of the store
    std::string_view family;
    std::string_view stderr_family;
  };
  static constexpr Export kExports[] = {
      {"mass_hit", "kvscope_result_attention_mass_retained_ratio",
       "kvscope_result_attention_mass_retained_stderr_ratio"},
      {"rebound_mass", "kvscope_result_rebound_mass_ratio",
       "kvscope_result_rebound_mass_stderr_ratio"},
      {"hit_at_32", "kvscope_result_hit_ratio", "kvscope_result_hit_stderr_ratio"},
      {"kl_full_nats", "kvscope_result_output_kl_divergence_nats",
       "kvscope_result_output_kl_divergence_stderr_nats"},
      {"nll_nats", "kvscope_result_nll_nats", "kvscope_result_nll_stderr_nats"},
      {"gold_nll_nats", "kvscope_result_nll_nats", "kvscope_result_nll_stderr_nats"},
      {"recall", "kvscope_result_task_accuracy_ratio", "kvscope_result_task_accuracy_stderr_ratio"},
      {"exact_match", "kvscope_result_task_accuracy_ratio",
       "kvscope_result_task_accuracy_stderr_ratio"},
      {"top1_agreement", "kvscope_result_token_agreement_ratio",
       "kvscope_result_token_agreement_stderr_ratio"},
      {"kv_peak_bytes", "kvscope_result_kv_peak_bytes", "kvscope_result_kv_peak_stderr_bytes"},
  };
  int n_samples = 0;
  for (const ArmMetricRow& row : metrics) {
    n_samples = std::max(n_samples, row.n);
    const bool is_sampled = row.metric.ends_with(kSampledSuffix);
    std::string_view name = row.metric;
    if (is_sampled) name.remove_suffix(kSampledSuffix.size());
    const Labels of_row = is_sampled ? sampled(labels) : labels;
    for (const Export& wanted : kExports) {
      if (name != wanted.metric) continue;
      book.set(wanted.family, of_row, row.mean);
      if (row.stderr_mean) book.set(wanted.stderr_family, of_row, *row.stderr_mean);
    }
  }
  book.set("kvscope_result_samples", labels, n_samples);
}

}  // namespace kvscope
