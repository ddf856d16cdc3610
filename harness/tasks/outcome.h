// From the engine's numbers to a SampleOutcome: what all tasks share.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "harness/store/records.h"
#include "harness/tasks/task.h"
#include "metrics/probes/event_log.h"
#include "metrics/probes/probe_tee.h"

namespace kvscope {

// The arm's policy fitted to one sample, or why it cannot run there.
struct FittedArm {
  PolicySpec spec;
  std::shared_ptr<const Policy> policy;  // null: skipped
  std::unique_ptr<SampledProbe> probe;   // null: not wanted or not defined (full, cache-relative)
  SampleOutcome skipped;                 // if policy is null
  std::unique_ptr<EventLog> events;      // where there is a probe and the sample is traced
  std::unique_ptr<ProbeTee> both;        // of probe and events

  ProbeSink* sink() const {
    return both ? static_cast<ProbeSink*>(both.get()) : static_cast<ProbeSink*>(probe.get());
  }
};
struct ProbedInput {
  // Probes count rows from here on: the same in every arm, also in those that acted before.
  int first_counted_position = 0;
  std::string_view sha256;  // of the input: which of these rows are looked at
};
// traced: the sample's events are wanted, from every row whatever the level of probes.
FittedArm fit_arm(const TaskRun& run, const ArmPlan& arm, const FitRequest& request,
                  const ProbedInput& input, bool traced = false);

// The events of a traced sample. tokens: ids by position, as far as they are known. kl_full_nats:
// of the predictions of rows first_row, first_row + 1, …
void add_events(SampleOutcome& outcome, const FittedArm& arm, const Tokenizer& tokenizer,
                std::span<const std::int32_t> tokens, std::span<const float> kl_full_nats,
                int first_row);

// Evidence survival after the selection and at the end, by layer, and by step at the ends of the
// step bins. n_evidence > 0. traced: also head by head.
void add_survival(SampleOutcome& outcome, std::span<const Survival> survival, int n_evidence,
                  int n_kv_heads, bool traced);

// Ledger, mode, probes and the metrics that follow from them; task metrics come before.
void add_measurements(SampleOutcome& outcome, const Ledger& ledger, PrefillMode mode,
                      const SampledProbe* probe);

// Nothing for an empty span; NaN where one of the values is.
// KV bytes by layer and step, KL and top-1 agreement by step; steps count predictions from the
// first scored or answered one.
void add_bins(SampleOutcome& outcome, const Ledger& ledger, std::span<const float> kl_full_nats,
              std::span<const std::uint8_t> top1_agrees);

// One metric by step; nothing for an empty span.
void add_steps(SampleOutcome& outcome, std::string name, std::span<const float> values);

std::optional<double> mean_of(std::span<const float> values);
std::optional<double> mean_of(std::span<const std::uint8_t> flags);
void add_metric(SampleOutcome& outcome, const std::string& name, std::optional<double> value);

// The error row of what the engine refused: kind nonfinite or engine.
SampleOutcome engine_error_outcome(const std::string& error);

// The skipped row of an arm whose absolute positions leave the trained range.
SampleOutcome beyond_context_outcome(int positions, int context_length);

}  // namespace kvscope
