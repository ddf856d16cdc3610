#include "harness/plan/arms.h"

#include <algorithm>
#include <charconv>

#include "runner/base/error.h"
#include "runner/base/sha256.h"
#include "runner/policies/catalog.h"

namespace kvscope {
namespace {

std::vector<Budget> parse_token_budgets(std::string_view text) {
  std::vector<Budget> budgets;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::string_view piece = text.substr(start, comma - start);
    int tokens = 0;
    const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), tokens);
    if (error != std::errc{} || end != piece.data() + piece.size() || tokens < 1) {
      throw UsageError("--budget-tokens: '" + std::string(piece) +
                       "' is not a number of tokens of at least 1");
    }
    const Budget budget{.permille = {}, .tokens = tokens};
    if (std::ranges::find(budgets, budget) != budgets.end()) {
      throw UsageError("--budget-tokens: " + std::string(piece) + " is listed twice");
    }
    budgets.push_back(budget);
    start = comma + 1;
  }
  return budgets;
}

std::vector<Budget> parse_budgets(const ArmTexts& texts) {
  if (!texts.budgets.empty() && !texts.budget_tokens.empty()) {
    throw UsageError("give either --budgets or --budget-tokens, not both");
  }
  if (!texts.budgets.empty()) return parse_budget_list(texts.budgets);
  if (!texts.budget_tokens.empty()) return parse_token_budgets(texts.budget_tokens);
  return {};
}

std::vector<QuestionVisibility> parse_question(std::string_view text) {
  using enum QuestionVisibility;
  if (text == "both") return {kVisible, kHidden};
  for (const QuestionVisibility one : {kVisible, kHidden}) {
    if (text == name_of(one)) return {one};
  }
  throw UsageError("--question: '" + std::string(text) + "' is none of visible, hidden and both");
}

// The arms of one visibility.
std::vector<ArmPlan> expand_one(const ArmTexts& texts, const PolicyCatalog& catalog,
                                QuestionVisibility question) {
  const std::vector<PolicySpec> policies = parse_policy_list(texts.policies, catalog);
  const std::vector<Budget> budgets = parse_budgets(texts);
  const Budget everything{.permille = 1000, .tokens = {}};
  std::vector<ArmPlan> arms = {{parse_policy("full"), everything, question}};
  for (const PolicySpec& policy : policies) {
    if (policy.is_full() && !policy.is_reference()) {  // keeps all, stored or prefilled otherwise
      arms.push_back({policy, everything, question});
      continue;
    }
    if (policy.is_full()) {
      // Keys change nothing where nothing is evicted; a second full arm would only cost time.
      if (!policy.written.empty()) {
        throw UsageError("policy full has no parameters: leave " + policy.written.begin()->first +
                         '=' + policy.written.begin()->second + " out");
      }
      continue;
    }
    if (budgets.empty()) {
      throw UsageError("policy '" + policy.canonical +
                       "' needs a budget: give --budgets 0.1,0.2 or --budget-tokens 128");
    }
    for (const Budget& budget : budgets) arms.push_back({policy, budget, question});
  }
  return arms;
}

}  // namespace

std::string_view name_of(QuestionVisibility visibility) {
  return visibility == QuestionVisibility::kVisible ? "visible" : "hidden";
}

std::string ArmPlan::label() const {
  // The view v_arm names stored arms likewise.
  const bool hidden = question == QuestionVisibility::kHidden;
  return policy.canonical + "@" + budget.label() + (hidden ? " question=hidden" : "");
}

std::vector<ArmPlan> expand_arms(const ArmTexts& texts) {
  const PolicyCatalog catalog = catalog_with_plugins(texts.plugins);
  std::vector<ArmPlan> arms;
  for (const QuestionVisibility question : parse_question(texts.question)) {
    for (ArmPlan& arm : expand_one(texts, catalog, question)) arms.push_back(std::move(arm));
  }
  return arms;
}

ArmRecord arm_record(const ArmPlan& arm, const std::string& model_key, DType dtype,
                     DType kv_dtype) {
  ArmRecord record;
  record.model_key = model_key;
  record.policy = {arm.policy.canonical, arm.policy.score, arm.policy.params};
  record.budget_permille = arm.budget.permille;
  record.budget_tokens = arm.budget.tokens;
  record.prefill_mode = name_of(arm.policy.prefill);
  record.position_mode = name_of(arm.policy.positions);
  record.question_visibility = name_of(arm.question);
  record.dtype = name_of(dtype);
  record.kv_dtype = name_of(kv_dtype);
  record.is_reference = arm.is_reference();
  std::string content = "arm";
  for (const std::string& part :
       {model_key, record.policy.canonical, arm.budget.label(), record.prefill_mode,
        record.position_mode, record.question_visibility, record.dtype, record.kv_dtype}) {
    content += '\n' + part;
  }
  // Built-in policies change with the program's version, plug-ins on their own.
  if (const auto build = arm.policy.params.find(kPluginSha256); build != arm.policy.params.end())
    content += '\n' + build->second;
  record.key = sha256_hex(std::string_view(content));
  return record;
}

}  // namespace kvscope
