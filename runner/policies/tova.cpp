// TOVA: Token Omission Via Attention (Oren et al., EMNLP 2024, arXiv:2401.06104).
//
//   score_t(i) = mean over all query heads of the layer of the softmax weight of row t on token i
//   keep       : the B tokens with the largest score, one set for all heads of the layer
//
// Needs     : the attention probabilities of the current row; of a prompt, its last row.
// State     : none.
// Deviations: the newest token is protected (the official code may drop it; protect_last=false
// does). scope=head keeps one
//             set per KV head, by the mean over its query heads.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"

namespace kvscope {
namespace {

std::unique_ptr<Policy> make_tova(const PolicySpec& spec, const FitRequest& request,
                                  int budget_tokens) {
  ScanRule rule;
  rule.statistic = ScanRule::Statistic::kLast;
  rule.victim = ScanRule::Victim::kLowest;
  rule.scope =
      spec.params.at("scope") == "layer" ? ScanRule::Scope::kLayer : ScanRule::Scope::kHead;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  return std::make_unique<RulePolicy>(spec, request, rule);
}

constexpr std::array<ParamInfo, 1> kParams = {{
    {"scope", "layer", "layer|head"},
}};

}  // namespace

PolicyInfo tova_policy() {
  return {.name = "tova",
          .summary = "Drops what the current row attends to least, one set per layer.",
          .paper = "Oren et al., EMNLP 2024, arXiv:2401.06104",
          .source = "runner/policies/tova.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_tova};
}

}  // namespace kvscope
