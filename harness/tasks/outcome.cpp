#include "harness/tasks/outcome.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "metrics/probes/step_bins.h"
#include "runner/policies/registry.h"

namespace kvscope {
FittedArm fit_arm(const TaskRun& run, const ArmPlan& arm, const FitRequest& request,
                  const ProbedInput& input, bool traced) {
  FittedArm fitted;
  fitted.spec = arm.policy;
  try {
    fitted.policy = fit_policy(arm.policy, request);
    require_suited(*fitted.policy, run.engine.model().config);
  } catch (const DoesNotFit& e) {
    fitted.policy = nullptr;
    fitted.skipped = skipped_outcome("does_not_fit", e.what());
    return fitted;
  }
  const ModelConfig& model = run.engine.model().config;
  fitted.probe = make_probe(run.probes, model, *fitted.policy, input.first_counted_position,
                            phase_seed(input.sha256));
  if (!fitted.probe || !traced || run.trace.events == 0) return fitted;
  fitted.events = std::make_unique<EventLog>(
      AttentionProbeShape{model.n_layers, model.n_kv_heads, model.group()},
      probe_config(*fitted.policy, input.first_counted_position),
      static_cast<std::size_t>(run.trace.events));
  fitted.both = std::make_unique<ProbeTee>(*fitted.probe, *fitted.events);
  return fitted;
}

namespace {

// Of rows with ghosts, where such were looked at.
void add_counts(SampleOutcome& outcome, const ProbeSummary& probes) {
  if (probes.ghost_steps == 0 && probes.sampled) return;
  add_metric(outcome, probe_metric("ghost_coverage", probes), probes.ghosts.coverage());
  if (probes.ghosts.logit_bound > 0)
    add_metric(outcome, probe_metric("ghost_logit_bound", probes), probes.ghosts.logit_bound);
  add_metric(outcome, probe_metric("rebound_events", probes),
             static_cast<double>(probes.rebound_events));
  const auto count = [&](std::string_view name, std::optional<double> value) {
    add_metric(outcome, probe_metric(name, probes), value);
  };
  count("rebound_events_per_1k", probes.events_per_1k_ghost_steps());
  count("event_mass_share", probes.event_mass_share());
  count("wrongful_evictions", static_cast<double>(probes.wrongful_evictions));
  if (probes.sampled && probes.sampled->burst_rebound_mass.n > 0)
    add_metric(outcome, "rebound_mass_in_bursts", probes.sampled->burst_rebound_mass.mean);
}

}  // namespace

void add_events(SampleOutcome& outcome, const FittedArm& arm, const Tokenizer& tokenizer,
                std::span<const std::int32_t> tokens, std::span<const float> kl_full_nats,
                int first_row) {
  if (!arm.events) return;
  for (const ReboundEvent& event : arm.events->heaviest()) {
    EventRecord& record = outcome.events.emplace_back();
    record.event = event;
    const auto at = static_cast<std::size_t>(event.position);
    if (at < tokens.size()) record.token = tokenizer.decode(tokens.subspan(at, 1));
    const std::ptrdiff_t predicted = event.rebound_at - first_row;
    if (predicted >= 0 && predicted < std::ssize(kl_full_nats))
      record.kl_full_nats = static_cast<double>(kl_full_nats[static_cast<std::size_t>(predicted)]);
  }
}

void add_survival(SampleOutcome& outcome, std::span<const Survival> survival, int n_evidence,
                  int n_kv_heads, bool traced) {
  if (survival.empty()) return;
  const auto heads = [&](const Survival& counted, const auto& add) {
    for (std::size_t i = 0; i < counted.alive.size(); ++i)
      add(i / static_cast<std::size_t>(n_kv_heads),
          static_cast<double>(counted.alive[i]) / n_evidence);
  };
  const auto by_layer = [&](const Survival& counted, const char* metric) {
    RunningStat all;
    BinnedMetric binned{metric, {}, {}};
    heads(counted, [&](std::size_t layer, double share) {
      binned.by_layer.resize(layer + 1);
      binned.by_layer[layer].add(share);
      all.add(share);
    });
    add_metric(outcome, metric, all.mean);
    return binned;
  };
  outcome.binned.push_back(by_layer(survival.front(), "evidence_survival_cut"));
  BinnedMetric at_end = by_layer(survival.back(), "evidence_survival");
  for (const Survival& counted : survival) {
    if (traced) outcome.evidence.push_back({counted.rows, n_evidence, counted.alive});
    if (counted.rows == 0) continue;
    const auto bin = static_cast<std::size_t>(step_bin(counted.rows - 1));
    at_end.by_step_bin.resize(bin + 1);
    heads(counted, [&](std::size_t, double share) { at_end.by_step_bin[bin].add(share); });
  }
  outcome.binned.push_back(std::move(at_end));
}

void add_measurements(SampleOutcome& outcome, const Ledger& ledger, PrefillMode mode,
                      const SampledProbe* probe) {
  outcome.ledger = ledger;
  outcome.mode_run = name_of(mode);
  if (probe != nullptr) {
    outcome.probes = probe->summary();
    for (const NamedProbe& named : named_probes(*outcome.probes)) {
      const RunningStat& all = named.values.overall;
      if (all.n > 0) add_metric(outcome, named.metric, all.mean);
    }
    add_counts(outcome, *outcome.probes);
  }
  const auto bytes = [&](const char* name, const KvBytes& b) {
    add_metric(outcome, name, static_cast<double>(b.total_bytes()));
  };
  bytes("kv_peak_bytes", ledger.peak());
  if (mode != PrefillMode::kInStream) bytes("kv_prefill_peak_bytes", ledger.prefill_peak);
  bytes("kv_decode_peak_bytes", ledger.decode_peak);
  bytes("kv_steady_bytes", ledger.steady);
  if (ledger.steady.physical_bytes > 0) {
    add_metric(outcome, "kv_fragmentation",
               1.0 - static_cast<double>(ledger.steady.logical_bytes) /
                         static_cast<double>(ledger.steady.physical_bytes));
  }
  add_metric(outcome, "page_occupancy", ledger.by_kind.page_occupancy());
  add_metric(outcome, "resident_tokens", ledger.mean_resident_tokens);
  if (ledger.prefill_density) add_metric(outcome, "prefill_density", *ledger.prefill_density);
  if (ledger.prefill_recall) add_metric(outcome, "prefill_recall", *ledger.prefill_recall);
}

namespace {

template <typename Value>
std::vector<RunningStat> in_step_bins(std::span<const Value> values) {
  std::vector<RunningStat> bins;
  for (std::size_t step = 0; step < values.size(); ++step) {
    const auto bin = static_cast<std::size_t>(step_bin(static_cast<std::int64_t>(step)));
    if (bins.size() <= bin) bins.resize(bin + 1);
    bins[bin].add(static_cast<double>(values[step]));
  }
  return bins;
}

// Exact ones of the sample: nearest rank.
void add_kl_quantiles(SampleOutcome& outcome, std::span<const float> kl_full_nats) {
  std::vector<float> sorted(kl_full_nats.begin(), kl_full_nats.end());
  // Such a result is refused as a whole.
  if (!std::ranges::all_of(sorted, [](float value) { return std::isfinite(value); })) return;
  std::ranges::sort(sorted);
  const auto at = [&](double q) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
    return static_cast<double>(sorted[std::max<std::size_t>(rank, 1) - 1]);
  };
  add_metric(outcome, "kl_full_p50_nats", at(0.5));
  add_metric(outcome, "kl_full_p99_nats", at(0.99));
  add_metric(outcome, "kl_full_max_nats", static_cast<double>(sorted.back()));
}

}  // namespace

void add_bins(SampleOutcome& outcome, const Ledger& ledger, std::span<const float> kl_full_nats,
              std::span<const std::uint8_t> top1_agrees) {
  BinnedMetric bytes{
      "kv_steady_bytes", {}, in_step_bins(std::span<const std::int64_t>(ledger.bytes_by_row))};
  for (const std::int64_t layer : ledger.bytes_by_layer)
    bytes.by_layer.emplace_back().add(static_cast<double>(layer));
  outcome.binned.push_back(std::move(bytes));
  if (kl_full_nats.empty()) return;
  Sketch kl(SketchScale::kLog);
  for (const float value : kl_full_nats) {
    if (std::isfinite(value)) kl.add(static_cast<double>(value));
  }
  outcome.binned.push_back({"kl_full_nats", {}, in_step_bins(kl_full_nats), std::move(kl)});
  add_kl_quantiles(outcome, kl_full_nats);
  outcome.binned.push_back({"top1_agreement", {}, in_step_bins(top1_agrees)});
}

void add_steps(SampleOutcome& outcome, std::string name, std::span<const float> values) {
  if (!values.empty()) outcome.binned.push_back({std::move(name), {}, in_step_bins(values)});
}

std::optional<double> mean_of(std::span<const float> values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> mean_of(std::span<const std::uint8_t> flags) {
  if (flags.empty()) return std::nullopt;
  return std::accumulate(flags.begin(), flags.end(), 0.0) / static_cast<double>(flags.size());
}

void add_metric(SampleOutcome& outcome, const std::string& name, std::optional<double> value) {
  if (value) outcome.metrics.emplace_back(name, *value);
}

SampleOutcome engine_error_outcome(const std::string& error) {
  const bool nonfinite = error.find("non-finite") != std::string::npos;
  return error_outcome(nonfinite ? "nonfinite" : "engine", error);
}

SampleOutcome beyond_context_outcome(int positions, int context_length) {
  return skipped_outcome("beyond_context", "needs " + std::to_string(positions) +
                                               " absolute positions, the model was "
                                               "trained for " +
                                               std::to_string(context_length) +
                                               "; --beyond-context runs it all the same");
}

}  // namespace kvscope
