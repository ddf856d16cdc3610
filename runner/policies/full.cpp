// Full cache: the baseline arm.
//
//   score_t(i) = none; everything stays
//   keep       : all tokens ever seen
//
// Needs     : nothing.
// State     : none.
// Deviations: none. A budget is accepted and ignored.
#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"

namespace kvscope {
namespace {

std::unique_ptr<Policy> make_full(const PolicySpec& spec, const FitRequest& request,
                                  int budget_tokens) {
  ScanRule rule;
  rule.budget_tokens = budget_tokens;
  return std::make_unique<RulePolicy>(spec, request, rule);
}

}  // namespace

PolicyInfo full_policy() {
  return {.name = "full",
          .summary = "Never evicts; every other arm is measured against it.",
          .paper = "control",
          .source = "runner/policies/full.cpp",
          .params = {},
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_full};
}

}  // namespace kvscope
