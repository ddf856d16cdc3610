#include "harness/store/records.h"

#include <cmath>

#include "harness/store/metric_info.h"
#include "runner/base/sha256.h"
#include "runner/policies/spec.h"

namespace kvscope {
namespace {

// Name of the first number that is not finite; empty if there is none.
std::string first_nonfinite(const SampleOutcome& outcome) {
  for (const auto& [name, value] : outcome.metrics) {
    if (!std::isfinite(value)) return name;
  }
  if (outcome.probes) {
    for (const NamedProbe& probe : named_probes(*outcome.probes)) {
      if (probe.values.overall.nonfinite > 0) return probe.metric;
    }
  }
  for (const auto* trace : {&outcome.trace_nll_nats, &outcome.trace_kl_nats}) {
    for (std::size_t i = 0; i < trace->size(); ++i) {
      if (std::isfinite((*trace)[i])) continue;
      return (trace == &outcome.trace_nll_nats ? "NLL" : "KL") + std::string(" at position ") +
             std::to_string(static_cast<std::size_t>(outcome.trace_first_position) + i);
    }
  }
  return {};
}

}  // namespace

std::string PolicyRecord::key() const {
  const auto build = params.find(kPluginSha256);
  if (build == params.end()) return sha256_hex(std::string_view(canonical));
  return sha256_hex(std::string_view(canonical + '\n' + build->second));
}

std::string probe_metric(std::string_view name, const ProbeSummary& summary) {
  return std::string(name) + (summary.sampled ? std::string(kSampledSuffix) : "");
}

std::vector<NamedProbe> named_probes(const ProbeSummary& summary) {
  std::vector<NamedProbe> named;
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    named.push_back({probe_metric(quantity.metric, summary), summary.*quantity.member});
  }
  return named;
}

std::string_view name_of(RunStatus status) {
  switch (status) {
    case RunStatus::kRunning:
      return "running";
    case RunStatus::kFinished:
      return "finished";
    case RunStatus::kFailed:
      return "failed";
    case RunStatus::kInterrupted:
      return "interrupted";
  }
  return "failed";
}

std::string_view name_of(IdentityFinding finding) {
  switch (finding) {
    case IdentityFinding::kHeldEverything:
      return "held_everything";
    case IdentityFinding::kEvictedNothing:
      return "evicted_nothing";
    case IdentityFinding::kOtherRatio:
      return "other_ratio";
    case IdentityFinding::kOtherRatioLater:
      return "other_ratio_later";
  }
  return "other_ratio";
}

std::string_view name_of(OutcomeStatus status) {
  switch (status) {
    case OutcomeStatus::kOk:
      return "ok";
    case OutcomeStatus::kError:
      return "error";
    case OutcomeStatus::kSkipped:
      return "skipped";
  }
  return "error";
}

std::optional<double> SampleOutcome::metric(std::string_view name) const {
  for (const auto& [key, value] : metrics) {
    if (key == name) return value;
  }
  return std::nullopt;
}

SampleOutcome skipped_outcome(std::string kind, std::string reason) {
  SampleOutcome outcome;
  outcome.status = OutcomeStatus::kSkipped;
  outcome.error_kind = std::move(kind);
  outcome.error = std::move(reason);
  return outcome;
}

SampleOutcome error_outcome(std::string kind, std::string reason) {
  SampleOutcome outcome = skipped_outcome(std::move(kind), std::move(reason));
  outcome.status = OutcomeStatus::kError;
  return outcome;
}

SampleOutcome refuse_nonfinite(SampleOutcome outcome) {
  if (outcome.status != OutcomeStatus::kOk) return outcome;
  const std::string name = first_nonfinite(outcome);
  if (name.empty()) return outcome;
  SampleOutcome refused = error_outcome("nonfinite", name + " is not finite");
  refused.mode_run = outcome.mode_run;
  refused.n_prompt_tokens = outcome.n_prompt_tokens;
  refused.n_decode_steps = outcome.n_decode_steps;
  refused.duration_seconds = outcome.duration_seconds;
  refused.fitted_params = outcome.fitted_params;
  return refused;
}

}  // namespace kvscope
