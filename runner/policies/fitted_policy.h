// What the built-in policies share: they keep everything where they never evict, hand over to
// another rule after the prompt where `decode` says so, and most of them are nothing but a
// ScanRule.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runner/policies/policy.h"
#include "runner/policies/spec.h"

namespace kvscope {

class FittedPolicy : public Policy {
 public:
  // own: the policy's in-stream rule, nullopt if it has none. one_set: the prompt's cut is the same
  // for all heads of a layer.
  FittedPolicy(const PolicySpec& spec, int budget_tokens, std::optional<ScanRule> own,
               bool one_set);

  PromptNeed prompt_need() const final;
  std::vector<KeptHead> select_prompt(const PromptLayer& layer) const final;
  std::optional<ScanRule> scan_rule() const final;
  std::optional<ScanRule> streaming_rule() const final;
  std::unique_ptr<PolicyState> make_state(UnitPlace place, const KeptHead& start) const final;

 protected:
  virtual PromptNeed cut_need() const = 0;
  // The prompt-end cut, called only for policies that evict.
  virtual std::vector<KeptHead> cut(const PromptLayer& layer) const = 0;

  void record(const std::string& name, int value) { fitted_params_[name] = std::to_string(value); }

 private:
  DecodeMode decode_;
  std::optional<ScanRule> own_;   // the policy's own
  std::optional<ScanRule> rule_;  // after the prompt
};

// A policy that is its in-stream rule; the prompt-end cut is the rule applied once after all rows
// of the prompt.
class RulePolicy final : public FittedPolicy {
 public:
  // fitted: parameters that followed the budget, as really used.
  RulePolicy(const PolicySpec& spec, const ScanRule& rule,
             const std::map<std::string, int>& fitted = {});

 protected:
  PromptNeed cut_need() const override;
  std::vector<KeptHead> cut(const PromptLayer& layer) const override;

 private:
  ScanRule rule_;
};

// The statistics that a rule's scores need of a dense prompt.
PromptNeed prompt_need_of(const ScanRule& rule);

// The rule after a prompt whose cut belongs to another policy; scores start at zero there. Not for
// kSelf and kGrow.
//   window: the oldest leaves.  h2o: norm=sum, recent = ⌊B/2⌋.
//   tova: one set a layer if the cut left one, else one set a head, by the mean over the group's
//   query heads.
ScanRule second_rule(DecodeMode decode, int budget_tokens, bool protect_last, bool one_set);

}  // namespace kvscope
