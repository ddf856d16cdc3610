#include "runner/policies/fitted_policy.h"

#include <cassert>
#include <numeric>

#include "runner/policies/rule_state.h"

namespace kvscope {
namespace {

using Statistic = ScanRule::Statistic;
using Victim = ScanRule::Victim;
using Scope = ScanRule::Scope;

std::vector<KeptHead> keep_all(const PromptLayer& layer) {
  KeptHead head;
  head.positions.resize(layer.prompt_tokens);
  std::iota(head.positions.begin(), head.positions.end(), 0);
  return std::vector<KeptHead>(layer.n_kv_heads, head);
}

std::optional<ScanRule> rule_after_prompt(const PolicySpec& spec, int budget_tokens,
                                          const std::optional<ScanRule>& own, bool one_set) {
  if (spec.decode == DecodeMode::kSelf) return own;
  if (spec.decode == DecodeMode::kGrow) return std::nullopt;
  return second_rule(spec.decode, budget_tokens, spec.protect_last, one_set);
}

}  // namespace

FittedPolicy::FittedPolicy(const PolicySpec& spec, int budget_tokens, std::optional<ScanRule> own,
                           bool one_set)
    : decode_(spec.decode), own_(own), rule_(rule_after_prompt(spec, budget_tokens, own, one_set)) {
  fitted_params_ = spec.params;
  if (decode_ == DecodeMode::kTova) {
    fitted_params_["decode_scope"] = one_set ? "layer" : "head";
  }
}

PromptNeed FittedPolicy::prompt_need() const {
  return never_evicts() || prefill() == PrefillMode::kStreaming ? PromptNeed{} : cut_need();
}

std::vector<KeptHead> FittedPolicy::select_prompt(const PromptLayer& layer) const {
  std::vector<KeptHead> heads = never_evicts() ? keep_all(layer) : cut(layer);
  const auto rule = scan_rule();
  for (KeptHead& head : heads) {
    // Another policy's statistic means nothing to the rule that takes over.
    if (decode_ != DecodeMode::kSelf || !rule) {
      head.statistic.clear();
      head.count.clear();
    }
    if (rule && rule->statistic != Statistic::kNone) head.statistic.resize(head.positions.size());
    if (rule && rule->statistic == Statistic::kMean) head.count.resize(head.positions.size());
  }
  return heads;
}

std::optional<ScanRule> FittedPolicy::scan_rule() const {
  return never_evicts() ? std::nullopt : rule_;
}

std::optional<ScanRule> FittedPolicy::streaming_rule() const {
  return never_evicts() ? std::nullopt : own_;
}

std::unique_ptr<PolicyState> FittedPolicy::make_state(UnitPlace place,
                                                      const KeptHead& start) const {
  const auto rule = scan_rule();
  return rule ? std::make_unique<RuleState>(*rule, place, start) : nullptr;
}

RulePolicy::RulePolicy(const PolicySpec& spec, const ScanRule& rule,
                       const std::map<std::string, int>& fitted)
    : FittedPolicy(spec, rule.budget_tokens, rule,
                   rule.scope == Scope::kLayer || rule.victim == Victim::kOldest),
      rule_(rule) {
  for (const auto& [name, value] : fitted) record(name, value);
}

PromptNeed RulePolicy::cut_need() const { return prompt_need_of(rule_); }

std::vector<KeptHead> RulePolicy::cut(const PromptLayer& layer) const {
  const std::size_t n = layer.prompt_tokens;
  const bool one_set = rule_.scope == Scope::kLayer;
  const int n_units = one_set ? 1 : layer.n_kv_heads;
  const int heads_per_unit = layer.n_heads / n_units;
  const std::vector<std::int32_t> positions = keep_all(layer).front().positions;

  std::vector<KeptHead> heads;
  for (int unit = 0; unit < n_units; ++unit) {
    std::vector<float> statistic;
    if (rule_.statistic != Statistic::kNone) {
      assert(layer.column_weights.size() == n * layer.n_heads);
      const std::size_t first = static_cast<std::size_t>(unit) * heads_per_unit * n;
      statistic = mean_over_heads(layer.column_weights.subspan(first, heads_per_unit * n),
                                  heads_per_unit, n);
    }
    std::vector<float> scores = statistic;
    if (rule_.statistic == Statistic::kMean) {
      for (std::size_t i = 0; i < n; ++i) scores[i] /= static_cast<float>(n - i);
    }
    const TopK kept = keep_by_rule(rule_, {layer.layer, unit}, positions, scores);
    KeptHead head;
    head.nan_scores = kept.nan_scores;
    for (const std::int32_t i : kept.slots) {
      head.positions.push_back(i);
      if (!statistic.empty()) head.statistic.push_back(statistic[i]);
      if (rule_.statistic == Statistic::kMean) {
        head.count.push_back(static_cast<std::uint32_t>(n - i));
      }
    }
    heads.push_back(std::move(head));
  }
  if (one_set) heads.resize(layer.n_kv_heads, heads.front());
  return heads;
}

PromptNeed prompt_need_of(const ScanRule& rule) {
  switch (rule.statistic) {
    case Statistic::kNone:
      return {};
    case Statistic::kLast:
      return {.rows = PromptNeed::Rows::kLast, .last_rows = 1};
    case Statistic::kSum:
    case Statistic::kMean:
      return {.rows = PromptNeed::Rows::kAll};
    case Statistic::kDecay:
      return {.rows = PromptNeed::Rows::kAll, .decay = rule.decay};
  }
  return {};
}

ScanRule second_rule(DecodeMode decode, int budget_tokens, bool protect_last, bool one_set) {
  ScanRule rule;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = protect_last;
  if (decode == DecodeMode::kTova) {
    rule.statistic = Statistic::kLast;
    rule.victim = Victim::kLowest;
    rule.scope = one_set ? Scope::kLayer : Scope::kHead;
  } else if (decode == DecodeMode::kH2o) {
    rule.statistic = Statistic::kSum;
    rule.victim = Victim::kLowest;
    rule.recent = budget_tokens / 2;
  } else {
    assert(decode == DecodeMode::kWindow);
  }
  return rule;
}

}  // namespace kvscope
