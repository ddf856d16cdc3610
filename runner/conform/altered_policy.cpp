#include "runner/conform/altered_policy.h"

#include "runner/policies/rule_state.h"

namespace kvscope::conform {
namespace {

class AlteredPolicy final : public Policy {
 public:
  AlteredPolicy(PolicyPtr inner, const Defect& defect) : inner_(std::move(inner)), defect_(defect) {
    never_evicts_ = inner_->never_evicts();
    acts_in_stream_ = inner_->acts_in_stream();
    budget_tokens_ = inner_->budget_tokens();
    chunk_ = inner_->chunk();
    every_ = inner_->every();
    storage_ = inner_->storage();
    sparse_prefill_ = inner_->sparse_prefill();
    positions_ = inner_->positions();
    prefill_ = inner_->prefill();
    fitted_params_ = inner_->fitted_params();
  }

  PromptNeed prompt_need() const override {
    return defect_.prompt_need ? defect_.prompt_need(*inner_) : inner_->prompt_need();
  }
  std::vector<KeptHead> select_prompt(const PromptLayer& layer) const override {
    auto heads = defect_.cut ? defect_.cut(*inner_, layer) : inner_->select_prompt(layer);
    if (defect_.after_cut) defect_.after_cut(heads, layer);
    return heads;
  }
  std::unique_ptr<PromptCascade> make_cascade() const override {
    return defect_.cascade ? defect_.cascade(*inner_) : inner_->make_cascade();
  }
  std::optional<ScanRule> scan_rule() const override { return inner_->scan_rule(); }
  std::optional<ScanRule> streaming_rule() const override { return inner_->streaming_rule(); }
  std::unique_ptr<PolicyState> make_state(UnitPlace place, const KeptHead& start) const override {
    return changed(inner_->make_state(place, start), place, start);
  }
  std::unique_ptr<PolicyState> make_streaming_state(UnitPlace place) const override {
    KeptHead start;
    start.budget_tokens = unit_budget(place);
    return changed(inner_->make_streaming_state(place), place, start);
  }
  int unit_budget(UnitPlace place) const override {
    return defect_.unit_budget ? defect_.unit_budget(*inner_, place) : inner_->unit_budget(place);
  }
  std::optional<ReadRule> read_rule() const override { return inner_->read_rule(); }

 private:
  std::unique_ptr<PolicyState> changed(std::unique_ptr<PolicyState> own, UnitPlace place,
                                       const KeptHead& start) const {
    if (own == nullptr || !defect_.state) return own;
    return defect_.state(std::move(own), *inner_, place, start);
  }

  PolicyPtr inner_;
  Defect defect_;
};

class AlteredState final : public PolicyState {
 public:
  AlteredState(std::unique_ptr<PolicyState> inner, const StateDefect& defect)
      : inner_(std::move(inner)), defect_(defect) {}

  std::unique_ptr<PolicyState> clone() const override {
    return std::make_unique<AlteredState>(inner_->clone(), defect_);
  }
  void observe(const VisibleRow& row) override {
    defect_.observe ? defect_.observe(*inner_, row) : inner_->observe(row);
  }
  std::vector<std::int32_t> select(const Slots& slots) const override {
    return defect_.select ? defect_.select(*inner_, slots) : inner_->select(slots);
  }
  void compact(std::span<const std::int32_t> old_slot_of) override {
    defect_.compact ? defect_.compact(*inner_, old_slot_of) : inner_->compact(old_slot_of);
  }
  std::uint64_t nan_scores() const override {
    return defect_.nan_scores ? defect_.nan_scores(*inner_) : inner_->nan_scores();
  }

 private:
  std::unique_ptr<PolicyState> inner_;
  StateDefect defect_;
};

}  // namespace

PolicyPtr altered(PolicyPtr inner, const Defect& defect) {
  // What never evicts has no state and no cut to be wrong in.
  if (inner->never_evicts()) return inner;
  return std::make_shared<AlteredPolicy>(std::move(inner), defect);
}

std::unique_ptr<PolicyState> altered(std::unique_ptr<PolicyState> inner,
                                     const StateDefect& defect) {
  return std::make_unique<AlteredState>(std::move(inner), defect);
}

Defect in_state(const StateDefect& defect) {
  return {.state = [defect](std::unique_ptr<PolicyState> own, const Policy&, UnitPlace,
                            const KeptHead&) { return altered(std::move(own), defect); }};
}

Defect with_rule(const std::function<void(ScanRule&)>& change) {
  return {.state = [change](std::unique_ptr<PolicyState> own, const Policy& policy, UnitPlace place,
                            const KeptHead& start) -> std::unique_ptr<PolicyState> {
    auto rule = policy.scan_rule();
    if (!rule || rule->statistic == ScanRule::Statistic::kHost) return own;
    change(*rule);
    return std::make_unique<RuleState>(*rule, place, start);
  }};
}

}  // namespace kvscope::conform
