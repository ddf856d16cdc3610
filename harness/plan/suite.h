// A suite: what a sweep compares, as a JSON document instead of options. Every key may be left out.
//
//   policies       [POLICY…]; a POLICY is a text as on the command line, or an object of
//                    policy         such a text, or
//                    score          name, with
//                    params         {key: value} of the score, and common ones
//                    decode, positions, prefill, chunk, every, protect_last    common ones, too
//                    parts          ["pyramid", {"name": …, "params": {…}}…]
//                  and its own
//                    budgets, budget_tokens     instead of the document's
//   budgets        [0.1, 0.2…], or a text "0.1:0.5:0.1"
//   budget_tokens  [128, 256…]
//   question       "visible" | "hidden" | "both"
//   tasks          [TASK…]; a text as on the command line, or {"name": …, "keys": {key: value or
//                  list}}
//   probe          "off" | "basic" | "full" | "all"
//
// An object means exactly what the text of the grammar means: it is put into one and parsed.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/plan/arms.h"
#include "runner/policies/catalog.h"

namespace kvscope {

struct Suite {
  std::vector<ArmPlan> arms;  // of each visibility `full` first, as expand_arms()
  std::string tasks;          // as --tasks
  std::string probe;          // as --probe; empty: not said
};

// What stands for keys that are left out.
struct SuiteDefaults {
  std::string policies;  // as --policies
  std::string budgets;   // as --budgets
  std::string tasks;
  PolicyCatalog catalog = {};
};

// The text of the grammar that a POLICY means. UsageError with the path.
std::string policy_text(const nlohmann::json& policy, const std::string& file,
                        const std::string& path);

// UsageError, one line with file and path: unknown keys, wrong types or values, arms given twice.
Suite parse_suite(const nlohmann::json& document, const std::string& file,
                  const SuiteDefaults& defaults);
Suite read_suite(const std::filesystem::path& file, const SuiteDefaults& defaults);

}  // namespace kvscope
