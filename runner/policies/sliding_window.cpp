// Sliding window (e.g. Beltagy et al., Longformer, arXiv:2004.05150, local attention; here as an
// eviction rule).
//
//   score_t(i) = position of i
//   keep       : the B newest tokens
//
// Needs     : nothing.
// State     : none.
// Deviations: after a monolithic prefill all prompt tokens have attended densely, so it is not the
// computation of a model run
//             with window attention from the start; prefill=streaming and acting in stream are.
#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"

namespace kvscope {
namespace {

std::unique_ptr<Policy> make_sliding_window(const PolicySpec& spec, const FitRequest& request,
                                            int budget_tokens) {
  ScanRule rule;
  rule.victim = ScanRule::Victim::kOldest;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  return std::make_unique<RulePolicy>(spec, request, rule);
}

}  // namespace

PolicyInfo sliding_window_policy() {
  return {.name = "sliding_window",
          .summary = "Keeps the newest tokens.",
          .paper = "control",
          .source = "runner/policies/sliding_window.cpp",
          .params = {},
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_sliding_window};
}

}  // namespace kvscope
