// A policy with a defect planted in it: everything is forwarded but what a defect replaces.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runner/conform/subject.h"

namespace kvscope::conform {

// What a defect does in the place of the policy's own calls; what is empty is forwarded.
struct Defect {
  std::function<PromptNeed(const Policy&)> prompt_need = {};
  // The dense prompt as the policy gets to see it.
  std::function<std::vector<KeptHead>(const Policy&, const PromptLayer&)> cut = {};
  // What the cut returns.
  std::function<void(std::vector<KeptHead>&, const PromptLayer&)> after_cut = {};
  // The state that runs in place of the policy's own.
  std::function<std::unique_ptr<PolicyState>(std::unique_ptr<PolicyState>, const Policy&, UnitPlace,
                                             const KeptHead&)>
      state = {};
  std::function<int(const Policy&, UnitPlace)> unit_budget = {};
  std::function<std::unique_ptr<PromptCascade>(const Policy&)> cascade = {};
};

PolicyPtr altered(PolicyPtr inner, const Defect& defect);

// A state with single calls replaced; what is empty is forwarded.
struct StateDefect {
  std::function<void(PolicyState&, const VisibleRow&)> observe = {};
  std::function<std::vector<std::int32_t>(const PolicyState&, const Slots&)> select = {};
  std::function<void(PolicyState&, std::span<const std::int32_t>)> compact = {};
  std::function<std::uint64_t(const PolicyState&)> nan_scores = {};
};

std::unique_ptr<PolicyState> altered(std::unique_ptr<PolicyState> inner, const StateDefect& defect);

// A defect of the state alone.
Defect in_state(const StateDefect& defect);
// A state that runs the policy's rule with something changed in it; host rules are left alone.
Defect with_rule(const std::function<void(ScanRule&)>& change);

}  // namespace kvscope::conform
