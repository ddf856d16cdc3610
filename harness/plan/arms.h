// Which arms a sweep compares: policies × budgets, and `full` once, first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/store/records.h"
#include "runner/model/model.h"
#include "runner/policies/spec.h"

namespace kvscope {

struct ArmPlan {
  PolicySpec policy;
  Budget budget;  // `full`: 1000 permille

  bool is_reference() const { return policy.canonical == "full"; }
  std::string label() const { return policy.canonical + "@" + budget.label(); }
};

struct ArmTexts {  // as on the command line; exactly one of the two budgets is set
  std::string policies;
  std::string budgets;        // "0.1,0.2" or "0.1:0.5:0.1"
  std::string budget_tokens;  // "128,256"
};

// `full` first, then every policy at every budget, in the order written. Throws UsageError: unknown
// policy or parameter, bad or repeated budget, both or no kinds of budget (none is needed if only
// `full` is listed).
std::vector<ArmPlan> expand_arms(const ArmTexts& texts);

// The arm's row; the key covers the model's key, policy, budget and all modes.
ArmRecord arm_record(const ArmPlan& arm, const std::string& model_key, DType dtype, DType kv_dtype);

}  // namespace kvscope
