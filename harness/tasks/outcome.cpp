#include "harness/tasks/outcome.h"

#include <algorithm>
#include <numeric>

#include "metrics/probes/step_bins.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

// Local attention over the ghosts is defined where keys keep their absolute positions; without
// eviction there are none.
bool can_probe(const Policy& policy) {
  return !policy.never_evicts() && !policy.read_rule() &&
         policy.positions() == PositionMode::kAbsolute;
}

std::unique_ptr<AttentionProbe> make_probe(const ModelConfig& model, const Policy& policy,
                                           int first_counted_position) {
  AttentionProbeConfig config;
  config.first_counted_position = first_counted_position;
  if (const auto rule = policy.scan_rule()) {
    config.protected_sinks = rule->sinks;
    config.protected_recent = std::max(rule->protect_last ? 1 : 0, rule->recent);
  }
  return std::make_unique<AttentionProbe>(
      AttentionProbeShape{model.n_layers, model.n_kv_heads, model.group()}, config);
}

}  // namespace

FittedArm fit_arm(const TaskRun& run, const ArmPlan& arm, const FitRequest& request,
                  int first_counted_position) {
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
  if (run.probes == ProbeLevel::kAll && can_probe(*fitted.policy)) {
    fitted.probe = make_probe(run.engine.model().config, *fitted.policy, first_counted_position);
  }
  return fitted;
}

void add_measurements(SampleOutcome& outcome, const Ledger& ledger, PrefillMode mode,
                      const AttentionProbe* probe) {
  outcome.ledger = ledger;
  outcome.mode_run = name_of(mode);
  if (probe != nullptr) {
    outcome.probes = probe->summary();
    for (const NamedProbe& named : named_probes(*outcome.probes)) {
      const RunningStat& all = named.values.overall;
      if (all.n > 0) add_metric(outcome, std::string(named.metric), all.mean);
    }
    add_metric(outcome, "rebound_events", static_cast<double>(outcome.probes->rebound_events));
  }
  const auto bytes = [&](const char* name, const KvBytes& b) {
    add_metric(outcome, name, static_cast<double>(b.total_bytes()));
  };
  bytes("kv_peak_bytes", ledger.peak());
  if (mode != PrefillMode::kInStream) bytes("kv_prefill_peak_bytes", ledger.prefill_peak);
  bytes("kv_decode_peak_bytes", ledger.decode_peak);
  bytes("kv_steady_bytes", ledger.steady);
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

}  // namespace

void add_bins(SampleOutcome& outcome, const Ledger& ledger, std::span<const float> kl_full_nats,
              std::span<const std::uint8_t> top1_agrees) {
  BinnedMetric bytes{
      "kv_steady_bytes", {}, in_step_bins(std::span<const std::int64_t>(ledger.bytes_by_row))};
  for (const std::int64_t layer : ledger.bytes_by_layer)
    bytes.by_layer.emplace_back().add(static_cast<double>(layer));
  outcome.binned.push_back(std::move(bytes));
  if (kl_full_nats.empty()) return;
  outcome.binned.push_back({"kl_full_nats", {}, in_step_bins(kl_full_nats)});
  outcome.binned.push_back({"top1_agreement", {}, in_step_bins(top1_agrees)});
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
