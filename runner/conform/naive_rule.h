// A ScanRule read as plainly as it can be: one victim at a time by linear search over tokens by
// position. It shares no code with RuleState and the kernels.
#pragma once

#include <map>

#include "runner/policies/policy.h"

namespace kvscope::conform {

class NaiveRule final : public PolicyState {
 public:
  NaiveRule(const ScanRule& rule, UnitPlace place, const KeptHead& start);

  std::unique_ptr<PolicyState> clone() const override;
  void observe(const VisibleRow& row) override;
  std::vector<std::int32_t> select(const Slots& slots) const override;
  void compact(std::span<const std::int32_t> old_slot_of) override;

 private:
  struct Token {
    float statistic = 0.0F;
    std::uint32_t count = 0;
  };
  bool leaves_before(std::int32_t a, std::int32_t b) const;

  ScanRule rule_;
  UnitPlace place_;
  std::map<std::int32_t, Token> tokens_;  // by position
  std::vector<std::int32_t> positions_;   // by slot of the newest row
};

}  // namespace kvscope::conform
