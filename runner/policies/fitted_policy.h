// What the built-in policies share: they keep everything where they never evict, hand over to
// another rule after the prompt where `decode` says so, and leave budgets of layers and heads,
// granularity and storage to the parts that follow the score.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runner/policies/parts.h"
#include "runner/policies/policy.h"
#include "runner/policies/protect.h"
#include "runner/policies/score_state.h"
#include "runner/policies/spec.h"

namespace kvscope {

// What a score says about one selection unit of a dense prompt.
struct PromptScores {
  std::vector<float> scores;                  // [P] higher stays
  std::vector<std::uint64_t> integer_scores;  // [P] instead, where scores are integers
  // Start of the in-stream rule by position, empty where it needs none: of rules as data …
  std::vector<float> statistic;      // [P]
  std::vector<std::uint32_t> count;  // [P]
  // … and of host scores.
  std::unique_ptr<ScoreState> state;
};

// What a policy's file hands to FittedPolicy.
struct Fitting {
  int budget_tokens = 0;
  int prompt_tokens = 0;
  std::optional<ScanRule> rule;  // its own in-stream rule; Statistic::kHost: make_score() runs it
  bool one_set = false;          // the cut is the same for all heads of a layer
  Protection protection;         // of the cut, and of host rules
  int drop_tokens = 1;           // at least so many leave at once
  std::optional<PageWrap> page = {};  // where the score itself drops whole pages
};

class FittedPolicy : public Policy {
 public:
  FittedPolicy(const PolicySpec& spec, const Fitting& fitting);

  PromptNeed prompt_need() const final;
  std::vector<KeptHead> select_prompt(const PromptLayer& layer) const final;
  std::unique_ptr<PromptCascade> make_cascade() const final;
  std::optional<ScanRule> scan_rule() const final;
  std::optional<ScanRule> streaming_rule() const final;
  std::unique_ptr<PolicyState> make_state(UnitPlace place, const KeptHead& start) const final;
  std::unique_ptr<PolicyState> make_streaming_state(UnitPlace place) const final;
  int unit_budget(UnitPlace place) const final;
  int most_slots(bool in_stream) const final;

  // For a cascade, which cuts a layer again when others take from it.
  std::vector<PromptScores> layer_scores(const PromptLayer& layer) const {
    return prompt_scores(layer);
  }
  std::vector<KeptHead> keep_best(int layer_budget, const PromptLayer& layer,
                                  const std::vector<PromptScores>& scores) const;
  int protected_window() const;
  int protected_tokens() const { return protected_window() + fitting_.protection.sinks; }
  int cake_window() const;  // prompt rows that preferences come from, fewer than the prompt's
  const Composition& composition() const { return composition_; }

 protected:
  virtual PromptNeed cut_need() const = 0;
  // The prompt-end cut of a layer whose units may keep layer_budget tokens each.
  virtual std::vector<KeptHead> cut(const PromptLayer& layer, int layer_budget) const;
  // A host rule of one unit before its first token.
  virtual std::unique_ptr<PolicyState> make_host_state(UnitPlace place, int budget) const;
  // The score of every prompt token: one entry per selection unit (a KV head, or all of the layer).
  // Called only for policies that evict.
  virtual std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const = 0;
  // The score of one unit before its first token; null for rules as data and where there is none.
  virtual std::unique_ptr<ScoreState> make_score(UnitPlace) const { return nullptr; }

  void record(const std::string& name, int value) { fitted_params_[name] = std::to_string(value); }
  const Fitting& fitting() const { return fitting_; }
  bool keeps_its_rule() const { return decode_ == DecodeMode::kSelf; }  // after the prompt

 private:
  std::vector<int> layer_budgets(int n_layers) const;  // empty: the budget for all
  KeptHead keep_unit(const PromptScores& unit, int budget, int prompt_tokens) const;
  Selection selection(int budget) const;
  int drop_tokens(int budget) const;

  DecodeMode decode_;
  Composition composition_;
  Fitting fitting_;
  std::optional<ScanRule> own_;   // the policy's own
  std::optional<ScanRule> rule_;  // after the prompt
};

// A policy that is its in-stream rule as data; the prompt-end cut is the rule applied once after
// all rows of the prompt.
class RulePolicy final : public FittedPolicy {
 public:
  // fitted: parameters that followed the budget, as really used. replay_rows: of Statistic::
  // kLastUse, the newest prompt rows that count as uses.
  RulePolicy(const PolicySpec& spec, const FitRequest& request, const ScanRule& rule,
             const std::map<std::string, int>& fitted = {}, int replay_rows = PromptNeed::kAllRows);

 protected:
  PromptNeed cut_need() const override;
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override;
  std::unique_ptr<ScoreState> make_score(UnitPlace place) const override;

 private:
  std::vector<PromptScores> scores_of_units(const PromptLayer& layer) const;

  ScanRule rule_;
  int replay_rows_;
};

// Shows each prompt row from `first_row` on to one score per unit, which has been told of the rows'
// tokens only. heads_per_unit: query heads.
void replay_rows(const PromptLayer& layer, int first_row, int heads_per_unit,
                 const std::vector<ScoreState*>& units);

// The rule after a prompt whose cut belongs to another policy; scores start at zero there. Not for
// kSelf and kGrow.
//   window: the oldest leaves.  h2o: norm=sum, recent = ⌊B/2⌋.
//   tova: one set a layer if the cut left one, else one set a head, by the mean over the group's
//   query heads.
ScanRule second_rule(DecodeMode decode, int budget_tokens, bool protect_last, bool one_set);

}  // namespace kvscope
