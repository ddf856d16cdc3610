// H2O: Heavy-Hitter Oracle (Zhang et al., NeurIPS 2023, arXiv:2306.14048).
//
//   a_u(i)     = mean over the group's query heads of the softmax weight of row u on token i
//
// where the softmax runs over what was visible at row u.
//
//   score_t(i) = Σ_{u ≤ t} a_u(i)                       norm=sum, the paper
//              = Σ_{u ≤ t} a_u(i) / rows that saw i     norm=mean
//              = Σ_{u ≤ t} lambda^(t-u) a_u(i)          norm=decay
//
//   keep       : the `recent` newest tokens and the B - recent others with the largest score
//
// Needs: the attention probabilities of every row.
//
// State: one float per cached token and KV head, and a row count for norm=mean; both move with the
// token.
//
// Deviations: group mean (the paper has no GQA); float32 sums (the official code casts to float16);
// half of B is recent where nothing is written (the paper's split is not documented).
// recent=0:protect_last=false:norm=mean:decode=grow is KVPress' ObservedAttention.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

std::unique_ptr<Policy> make_h2o(const PolicySpec& spec, const FitRequest& request,
                                 int budget_tokens) {
  const std::string& norm = spec.params.at("norm");
  ScanRule rule;
  rule.statistic = norm == "sum"    ? ScanRule::Statistic::kSum
                   : norm == "mean" ? ScanRule::Statistic::kMean
                                    : ScanRule::Statistic::kDecay;
  rule.victim = ScanRule::Victim::kLowest;
  if (norm == "decay") rule.decay = float_param(spec, "lambda");
  if (spec.params.at("heads") == "summed") rule.scope = ScanRule::Scope::kLayer;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  rule.recent = fit_param(spec, request, "recent", budget_tokens / 2, budget_tokens / 2,
                          budget_tokens, "the budget");
  return std::make_unique<RulePolicy>(spec, request, rule,
                                      std::map<std::string, int>{{"recent", rule.recent}});
}

constexpr std::array<ParamInfo, 4> kParams = {{
    {"norm", "sum", "sum|mean|decay"},
    {"heads", "group", "group|summed (summed: all heads of the layer, one set)"},
    {"recent", "auto", "0… (auto: half of B; the rest of B is heavy)"},
    {"lambda", "0.99", "float 0…1", "norm=decay"},
}};

}  // namespace

PolicyInfo h2o_policy() {
  return {.name = "h2o",
          .summary = "Keeps recent tokens and the heavy hitters of accumulated attention.",
          .paper = "Zhang et al., NeurIPS 2023, arXiv:2306.14048",
          .source = "runner/policies/h2o.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_h2o};
}

}  // namespace kvscope
