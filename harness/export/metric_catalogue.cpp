#include "harness/export/metric_catalogue.h"

#include "metrics/probes/probe_summary.h"

namespace kvscope {
namespace {

using enum FamilyType;

constexpr double kMassBuckets[] = {0.5,  0.6,   0.7,  0.8,   0.85,  0.9, 0.925,
                                   0.95, 0.975, 0.99, 0.995, 0.999, 1.0};
constexpr double kKlBuckets[] = {1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2,
                                 3e-2, 0.1,  0.3,  1.0,  3.0,  10.0};
// Those of vllm:time_to_first_token_seconds, so that panels can be shared; prefills on a CPU need
// the longer ones.
constexpr double kFirstTokenBuckets[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                         0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0};
constexpr double kTokenBuckets[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075,
                                    0.1,   0.15,   0.2,   0.3,  0.5,   1.0};
constexpr double kTransactionBuckets[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0};

constexpr FamilyInfo kFamilies[] = {
    {"kvscope_build_info", kGauge, "Build of the harness; always 1."},
    {"kvscope_run_info", kGauge, "This run; always 1. The only metric that carries ids."},
    {"kvscope_run_start_timestamp_seconds", kGauge, "Unix time at which the run started."},
    {"kvscope_run_last_progress_timestamp_seconds", kGauge,
     "Unix time at which the last sample was committed."},
    {"kvscope_samples_planned", kGauge, "Samples that the arm will evaluate."},
    {"kvscope_samples_total", kCounter, "Samples finished, by outcome."},
    {"kvscope_prompt_tokens_total", kCounter, "Prompt tokens processed."},
    {"kvscope_generation_tokens_total", kCounter, "Tokens decoded."},
    {"kvscope_evicted_tokens_total", kCounter,
     "Token positions dropped from the KV cache, summed over layers and KV heads."},
    {"kvscope_kv_cache_resident_tokens", kGauge,
     "Token positions held, mean over layers and KV heads, at the last step."},
    {"kvscope_kv_cache_usage_ratio", kGauge,
     "Resident positions over the positions a full cache would hold."},
    {"kvscope_kv_cache_bytes", kGauge,
     "Bytes held after the last selection of the newest sample, by kind; ghosts are the probes' "
     "own."},
    {"kvscope_kv_cache_peak_bytes", kGauge,
     "Most bytes of keys, values and metadata that a sample held at once, by stage."},
    {"kvscope_attention_mass_retained_ratio", kHistogram,
     "Share of full-cache attention mass on the retained positions; one observation a sample and "
     "layer.",
     kMassBuckets},
    {"kvscope_attention_rebound_ratio", kHistogram,
     "Share of attention that evicted positions would have received had they stayed; one "
     "observation a step, layer and query head.",
     kReboundMassEdges},
    {"kvscope_attention_rebound_events_total", kCounter,
     "Times an evicted position would have become important again."},
    {"kvscope_cache_top_keys_total", kCounter,
     "The 32 keys with most attention of each step, layer and query head: still cached (hit) or "
     "evicted (miss)."},
    {"kvscope_output_kl_divergence_nats", kHistogram,
     "KL of the next-token distribution, full cache against evicted; one observation a sample.",
     kKlBuckets},
    {"kvscope_token_comparisons_total", kCounter,
     "Greedy next tokens compared with the full cache."},
    {"kvscope_task_results_total", kCounter, "Scored task answers."},
    {"kvscope_time_to_first_token_seconds", kHistogram,
     "Prefill time of a sample (the buckets of vllm:time_to_first_token_seconds).",
     kFirstTokenBuckets},
    {"kvscope_inter_token_latency_seconds", kHistogram,
     "Decode step time of the batch, mean of a sample.", kTokenBuckets},
    {"kvscope_nonfinite_values_total", kCounter, "NaN or infinite probe values that were dropped."},
    {"kvscope_errors_total", kCounter, "Errors, by kind."},
    {"kvscope_gpu_memory_bytes", kGauge, "Device memory, by kind."},
    {"kvscope_process_peak_memory_bytes", kGauge, "Largest resident set of the process so far."},
    {"kvscope_store_transaction_duration_seconds", kHistogram, "Time of one SQLite commit.",
     kTransactionBuckets},
    {"kvscope_store_size_bytes", kGauge, "Size of the database file and its WAL."},
    {"kvscope_result_attention_mass_retained_ratio", kGauge,
     "Mean share of attention mass retained of the newest finished arm."},
    {"kvscope_result_attention_mass_retained_stderr_ratio", kGauge, "Standard error of the same."},
    {"kvscope_result_rebound_mass_ratio", kGauge, "Mean rebound mass of the newest finished arm."},
    {"kvscope_result_rebound_mass_stderr_ratio", kGauge, "Standard error of the same."},
    {"kvscope_result_hit_ratio", kGauge,
     "Mean share of the 32 keys with most attention that are still cached, of the newest finished "
     "arm."},
    {"kvscope_result_hit_stderr_ratio", kGauge, "Standard error of the same."},
    {"kvscope_result_output_kl_divergence_nats", kGauge,
     "Mean KL of the outputs of the newest finished arm."},
    {"kvscope_result_output_kl_divergence_stderr_nats", kGauge, "Standard error of the same."},
    {"kvscope_result_nll_nats", kGauge,
     "Mean negative log-likelihood of scored tokens or gold answers of the newest finished arm."},
    {"kvscope_result_nll_stderr_nats", kGauge, "Standard error of the same."},
    {"kvscope_result_task_accuracy_ratio", kGauge,
     "Share of task answers that are correct of the newest finished arm."},
    {"kvscope_result_task_accuracy_stderr_ratio", kGauge, "Standard error of the same."},
    {"kvscope_result_token_agreement_ratio", kGauge,
     "Share of greedy tokens equal to the full cache of the newest finished arm."},
    {"kvscope_result_token_agreement_stderr_ratio", kGauge, "Standard error of the same."},
    {"kvscope_result_kv_peak_bytes", kGauge,
     "Mean over samples of the most bytes held at once, of the newest finished arm."},
    {"kvscope_result_kv_peak_stderr_bytes", kGauge, "Standard error of the same."},
    {"kvscope_result_samples", kGauge, "Samples behind the newest result."},
    {"kvscope_run_duration_seconds", kGauge, "Wall time of the newest finished run."},
    {"kvscope_run_completion_timestamp_seconds", kGauge,
     "Unix time at which a run last ended, well or badly."},
    {"kvscope_run_last_success_timestamp_seconds", kGauge,
     "Unix time at which a run last ended well."},
};

}  // namespace

std::span<const FamilyInfo> metric_families() { return kFamilies; }

const FamilyInfo* find_family(std::string_view name) {
  for (const FamilyInfo& family : kFamilies) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

}  // namespace kvscope
