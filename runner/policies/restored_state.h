// The rule of one selection unit beside tokens that are none of its business.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runner/policies/policy_state.h"

namespace kvscope {

// Shows `rule` a cache without the given tokens and adds these to what it keeps. A given token is
// shown in its own row, where every rule expects the newest one, and withdrawn after it.
class RestoredState final : public PolicyState {
 public:
  // given: ascending positions. start: positions by slot before the first row, `rule` started from
  // those of them that are not given.
  RestoredState(std::unique_ptr<PolicyState> rule,
                std::shared_ptr<const std::vector<std::int32_t>> given,
                std::span<const std::int32_t> start);
  RestoredState(const RestoredState& other);

  std::unique_ptr<PolicyState> clone() const override;
  void observe(const VisibleRow& row) override;
  std::vector<std::int32_t> select(const Slots& slots) const override;
  void compact(std::span<const std::int32_t> old_slot_of) override;
  std::uint64_t nan_scores() const override { return rule_->nan_scores(); }
  std::int64_t state_bytes() const override { return rule_->state_bytes(); }
  std::string error() const override { return rule_->error(); }

 private:
  bool is_given(std::int32_t position) const;

  std::unique_ptr<PolicyState> rule_;
  std::shared_ptr<const std::vector<std::int32_t>> given_;
  std::vector<bool> is_given_;  // [n_slots]
};

}  // namespace kvscope
