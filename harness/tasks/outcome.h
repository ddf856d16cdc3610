// From the engine's numbers to a SampleOutcome: what all tasks share.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "harness/store/records.h"
#include "harness/tasks/task.h"
#include "metrics/probes/attention_probe.h"

namespace kvscope {

// The arm's policy fitted to one sample, or why it cannot run there.
struct FittedArm {
  std::shared_ptr<const Policy> policy;   // null: skipped
  std::unique_ptr<AttentionProbe> probe;  // null: not wanted or not defined (full, cache-relative)
  SampleOutcome skipped;                  // if policy is null
};
FittedArm fit_arm(const TaskRun& run, const ArmPlan& arm, const FitRequest& request);

// Ledger, mode, probes and the metrics that follow from them; task metrics come before.
void add_measurements(SampleOutcome& outcome, const Ledger& ledger, PrefillMode mode,
                      const AttentionProbe* probe);

// Nothing for an empty span; NaN where one of the values is.
std::optional<double> mean_of(std::span<const float> values);
std::optional<double> mean_of(std::span<const std::uint8_t> flags);
void add_metric(SampleOutcome& outcome, const std::string& name, std::optional<double> value);

// The error row of what the engine refused: kind nonfinite or engine.
SampleOutcome engine_error_outcome(const std::string& error);

// The skipped row of an arm whose absolute positions leave the trained range.
SampleOutcome beyond_context_outcome(int positions, int context_length);

}  // namespace kvscope
