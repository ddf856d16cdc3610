// LRU: the token whose last use is longest ago leaves (policies.md 2.4; no standard definition).
//
//   a row t uses every visible token of weight ≥ c / |V_t|       use=threshold
//              or the k heaviest (auto: max(1, ⌈0.05·|V_t|⌉))    use=topk
//              and itself
//
//   score(i) = the newest row that used i, an integer
//   keep     : the B tokens of largest score, the newer of equals
//
// where a weight is the mean over the group's query heads of the softmax over what was visible.
//
// Needs     : the attention probabilities of every row (of a prompt, its newest `rows`).
// State     : one integer per cached token and KV head.
// Deviations: none; this is the definition.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

std::unique_ptr<Policy> make_lru(const PolicySpec& spec, const FitRequest& request,
                                 int budget_tokens) {
  ScanRule rule;
  rule.statistic = ScanRule::Statistic::kLastUse;
  rule.victim = ScanRule::Victim::kLowest;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  if (spec.params.at("use") == "threshold") {
    rule.threshold = float_param(spec, "c");
  } else if (spec.params.at("k") != "auto") {
    rule.top_k = int_param(spec, "k");
  }
  const int rows = int_param(spec, "rows");
  return std::make_unique<RulePolicy>(spec, request, rule, std::map<std::string, int>{},
                                      rows > 0 ? rows : PromptNeed::kAllRows);
}

constexpr std::array<ParamInfo, 4> kParams = {{
    {"use", "threshold", "threshold|topk"},
    {"c", "1", "float 0.000001…", "use=threshold"},
    {"k", "auto", "1… (auto: a twentieth of the visible tokens)", "use=topk"},
    {"rows", "0", "0… (newest prompt rows that count as uses; 0: all)"},
}};

}  // namespace

PolicyInfo lru_policy() {
  return {.name = "lru",
          .summary = "Drops the token that attention used longest ago.",
          .paper = "control",
          .source = "runner/policies/lru.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_lru};
}

}  // namespace kvscope
