// Knorm: keys of small norm stay (Devoto et al., EMNLP 2024, arXiv:2406.11430).
//
//   score(i) = -‖k_i‖₂
//   keep     : the B tokens of largest score
//
// Needs     : keys; the norm does not depend on their rotation.
// State     : one float per cached token and KV head.
// Deviations: the newest token is protected (protect_last=false: KVPress' Knorm). No layer is
// skipped.
#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"

namespace kvscope {
namespace {

std::unique_ptr<Policy> make_knorm(const PolicySpec& spec, const FitRequest& request,
                                   int budget_tokens) {
  ScanRule rule;
  rule.statistic = ScanRule::Statistic::kKeyNorm;
  rule.victim = ScanRule::Victim::kLowest;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  return std::make_unique<RulePolicy>(spec, request, rule);
}

}  // namespace

PolicyInfo knorm_policy() {
  return {.name = "knorm",
          .summary = "Keeps the tokens whose keys have the smallest norm.",
          .paper = "Devoto et al., EMNLP 2024, arXiv:2406.11430",
          .source = "runner/policies/knorm.cpp",
          .params = {},
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_knorm};
}

}  // namespace kvscope
