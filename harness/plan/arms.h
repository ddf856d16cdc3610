// Which arms a sweep compares: policies × budgets, and `full` first, for each question visibility.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/store/records.h"
#include "runner/model/model.h"
#include "runner/policies/spec.h"

namespace kvscope {

// Is the question part of the prompt that a policy selects from, or fed after the selection?
// Numbers of the two are never compared (policies.md 2.9).
enum class QuestionVisibility { kVisible, kHidden };
std::string_view name_of(QuestionVisibility visibility);  // visible | hidden, as in the store

struct ArmPlan {
  PolicySpec policy;
  Budget budget;  // `full`: 1000 permille
  QuestionVisibility question = QuestionVisibility::kVisible;

  bool is_reference() const { return policy.canonical == "full"; }
  std::string label() const;  // "snapkv@0.200", "snapkv@0.200 question=hidden"
};

struct ArmTexts {  // as on the command line; exactly one of the two budgets is set
  std::string policies;
  std::string budgets;                    // "0.1,0.2" or "0.1:0.5:0.1"
  std::string budget_tokens;              // "128,256"
  std::string question = "visible";       // visible | hidden | both
  std::vector<std::string> plugins = {};  // files whose policies may be named too
};

// `full` first, then every policy at every budget, in the order written; with both visibilities all
// of these that see the question, then all that do not. `full` stands in each group: its answers
// are the same bits, but not its prompt's length, prefill bytes and times, and an arm is only ever
// paired within its group. Throws UsageError: unknown policy, parameter or visibility, bad plug-in,
// bad or repeated budget, both or no kinds of budget (none is needed if only `full` is listed).
std::vector<ArmPlan> expand_arms(const ArmTexts& texts);

// The arm's row; the key covers the model's key, policy (of a plug-in: its file's
// SHA-256 too), budget and all modes.
ArmRecord arm_record(const ArmPlan& arm, const std::string& model_key, DType dtype, DType kv_dtype);

}  // namespace kvscope
