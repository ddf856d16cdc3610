#include "harness/plan/suite.h"

#include <algorithm>
#include <optional>

#include "harness/plan/json_path.h"
#include "harness/tasks/task.h"
#include "runner/base/error.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

using nlohmann::json;

// What `action` says is wrong, with the place.
template <typename Action>
auto with_path(const JsonAt& at, Action&& action) {
  try {
    return action();
  } catch (const UsageError& e) {
    at.refuse(e.what());
  }
}

std::string written_params(const JsonAt& params) {
  params.require_object();
  std::string text;
  for (const auto& [key, unused] : params.value.items())
    text += ":" + key + "=" + params.member(key).plain();
  return text;
}

std::string part_text(const JsonAt& part) {
  if (part.value.is_string()) return std::string("+").append(part.plain());
  part.require_keys({"name", "params"});
  if (!part.has("name")) part.refuse("a part needs a \"name\"");
  const std::string name = part.member("name").plain();
  return std::string("+").append(name).append(
      part.has("params") ? written_params(part.member("params")) : "");
}

std::string policy_text_at(const JsonAt& policy) {
  if (policy.value.is_string()) return policy.text();
  policy.require_keys({"policy", "score", "params", "parts", "decode", "positions", "prefill",
                       "chunk", "every", "protect_last", "budgets", "budget_tokens"});
  if (policy.has("policy")) {
    for (const auto& [key, unused] : policy.value.items()) {
      if (key == "policy" || key == "budgets" || key == "budget_tokens") continue;
      policy.refuse("\"policy\" is the whole text; leave \"" + key + "\" out or write \"score\"");
    }
    return policy.member("policy").text();
  }
  if (!policy.has("score")) policy.refuse("needs a \"score\" or a \"policy\"");
  std::string text = policy.member("score").plain();
  if (policy.has("params")) text += written_params(policy.member("params"));
  for (const ParamInfo& common : common_params()) {
    const std::string key(common.name);
    if (policy.has(key)) text += ":" + key + "=" + policy.member(key).plain();
  }
  if (policy.has("parts")) {
    const JsonAt parts = policy.member("parts");
    parts.require_array();
    for (std::size_t i = 0; i < parts.value.size(); ++i) text += part_text(parts.element(i));
  }
  return text;
}

// A text that a list on the command line would split is more than one policy.
PolicySpec policy_at(const JsonAt& policy, const PolicyCatalog& catalog) {
  const std::string text = policy_text_at(policy);
  if (text.find(',') != std::string::npos) {
    policy.refuse("\"" + text + "\" is a list; write each policy as an element of its own");
  }
  return with_path(policy, [&] { return parse_policy(text, catalog); });
}

std::vector<Budget> ratios_at(const JsonAt& at) {
  if (at.value.is_string()) return with_path(at, [&] { return parse_budget_list(at.text()); });
  at.require_array();
  std::vector<Budget> budgets;
  for (std::size_t i = 0; i < at.value.size(); ++i) {
    const JsonAt one = at.element(i);
    if (!one.value.is_number()) one.refuse("is no number; write a share of the prompt such as 0.2");
    budgets.push_back(with_path(one, [&] { return parse_budget_ratio(one.plain()); }));
  }
  return budgets;
}

std::vector<Budget> tokens_at(const JsonAt& at) {
  at.require_array();
  std::vector<Budget> budgets;
  for (std::size_t i = 0; i < at.value.size(); ++i) {
    const JsonAt one = at.element(i);
    constexpr std::int64_t kMost = 1'000'000'000;
    const bool whole = one.value.is_number_integer() || one.value.is_number_unsigned();
    if (!whole || one.value.get<double>() < 1 || one.value.get<double>() > kMost) {
      one.refuse(one.value.dump(-1, ' ', false, json::error_handler_t::replace) +
                 " is not a number of tokens of at least 1");
    }
    budgets.push_back({.permille = {}, .tokens = one.value.get<int>()});
  }
  return budgets;
}

// Of the document or of one policy; nullopt: it names none.
std::optional<std::vector<Budget>> budgets_of(const JsonAt& owner) {
  const bool ratios = owner.has("budgets");
  if (!ratios && !owner.has("budget_tokens")) return std::nullopt;
  if (ratios && owner.has("budget_tokens")) {
    owner.refuse("give either \"budgets\" or \"budget_tokens\", not both");
  }
  const JsonAt at = owner.member(ratios ? "budgets" : "budget_tokens");
  const auto budgets = ratios ? ratios_at(at) : tokens_at(at);
  if (budgets.empty()) at.refuse("is empty; give at least one budget or leave it out");
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    if (std::find(budgets.begin(), budgets.begin() + std::ptrdiff_t(i), budgets[i]) !=
        budgets.begin() + std::ptrdiff_t(i)) {
      at.refuse(budgets[i].label() + " is listed twice; list each budget once");
    }
  }
  return budgets;
}

struct Group {
  PolicySpec policy;
  std::vector<Budget> budgets;
  std::string path;
};

std::vector<Group> groups_of(const JsonAt& document, const SuiteDefaults& defaults) {
  const auto shared = budgets_of(document);
  const std::vector<Budget> budgets = shared ? *shared : parse_budget_list(defaults.budgets);
  std::vector<Group> groups;
  if (!document.has("policies")) {
    for (PolicySpec& policy : parse_policy_list(defaults.policies, defaults.catalog))
      groups.push_back({std::move(policy), budgets, "policies"});
    return groups;
  }
  const JsonAt list = document.member("policies");
  list.require_array();
  if (list.value.empty()) list.refuse("is empty; name at least one policy or leave it out");
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    const JsonAt one = list.element(i);
    PolicySpec policy = policy_at(one, defaults.catalog);
    const auto own = one.value.is_object() ? budgets_of(one) : std::nullopt;
    if (policy.is_full()) {
      if (own) one.refuse("policy full keeps everything and takes no budget; leave it out");
      if (policy.is_reference() && !policy.written.empty()) {
        one.refuse("policy full has no parameters: leave " + policy.written.begin()->first + '=' +
                   policy.written.begin()->second + " out");
      }
    }
    groups.push_back({std::move(policy), own.value_or(budgets), one.path});
  }
  return groups;
}

// `full` first, as in every sweep; naming it changes nothing.
std::vector<ArmPlan> arms_of(const JsonAt& document, std::span<const Group> groups,
                             QuestionVisibility question) {
  const Budget everything{.permille = 1000, .tokens = {}};
  std::vector<ArmPlan> arms = {{parse_policy("full"), everything, question}};
  std::vector<std::string> paths = {"full"};
  bool named_full = false;
  for (const Group& group : groups) {
    const JsonAt at{document.value, document.file, group.path};
    if (group.policy.is_reference()) {
      if (named_full) at.refuse("full is listed twice; list each arm once");
      named_full = true;
      continue;
    }
    const std::vector<Budget> budgets =
        group.policy.is_full() ? std::vector<Budget>{everything} : group.budgets;
    for (const Budget& budget : budgets) {
      ArmPlan arm{group.policy, budget, question};
      for (std::size_t i = 0; i < arms.size(); ++i) {
        if (arms[i].label() == arm.label()) {
          at.refuse("arm " + arm.label() + " stands in " + paths[i] + " too; list each arm once");
        }
      }
      arms.push_back(std::move(arm));
      paths.push_back(group.path);
    }
  }
  return arms;
}

std::vector<QuestionVisibility> visibilities_of(const JsonAt& document) {
  using enum QuestionVisibility;
  if (!document.has("question")) return {kVisible};
  const JsonAt at = document.member("question");
  const std::string text = at.text();
  if (text == "both") return {kVisible, kHidden};
  for (const QuestionVisibility one : {kVisible, kHidden}) {
    if (text == name_of(one)) return {one};
  }
  at.refuse("\"" + text + "\" is none of visible, hidden and both");
}

std::string task_text(const JsonAt& task) {
  if (task.value.is_string()) return task.text();
  task.require_keys({"name", "keys"});
  if (!task.has("name")) task.refuse("a task needs a \"name\"");
  std::string text = task.member("name").plain();
  if (!task.has("keys")) return text;
  const JsonAt keys = task.member("keys");
  keys.require_object();
  for (const auto& [key, value] : keys.value.items()) {
    const JsonAt at = keys.member(key);
    if (!value.is_array()) {
      text += ":" + key + "=" + at.plain();
      continue;
    }
    if (value.empty()) at.refuse("is empty; give at least one value or leave it out");
    for (std::size_t i = 0; i < value.size(); ++i) text += ":" + key + "=" + at.element(i).plain();
  }
  return text;
}

std::string tasks_of(const JsonAt& document, const SuiteDefaults& defaults) {
  if (!document.has("tasks")) return defaults.tasks;
  const JsonAt list = document.member("tasks");
  list.require_array();
  if (list.value.empty()) list.refuse("is empty; name at least one task or leave it out");
  std::string text;
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    const JsonAt one = list.element(i);
    const std::string task = task_text(one);
    if (task.find(',') != std::string::npos) {
      one.refuse("\"" + task + "\" is a list; write each task as an element of its own");
    }
    with_path(one, [&] { return parse_tasks(task); });
    text += (i > 0 ? "," : "") + task;
  }
  with_path(list, [&] { return parse_tasks(text); });  // the same task twice
  return text;
}

}  // namespace

std::string policy_text(const json& policy, const std::string& file, const std::string& path) {
  return policy_text_at({policy, file, path});
}

Suite parse_suite(const json& value, const std::string& file, const SuiteDefaults& defaults) {
  const JsonAt document{value, file, ""};
  document.require_keys({"policies", "budgets", "budget_tokens", "question", "tasks", "probe"});
  const std::vector<Group> groups = groups_of(document, defaults);
  Suite suite;
  for (const QuestionVisibility question : visibilities_of(document)) {
    for (ArmPlan& arm : arms_of(document, groups, question)) suite.arms.push_back(std::move(arm));
  }
  suite.tasks = tasks_of(document, defaults);
  if (document.has("probe")) {
    const JsonAt level = document.member("probe");
    suite.probe = level.text();
    with_path(level, [&] { return parse_probe_level(suite.probe); });
  }
  return suite;
}

Suite read_suite(const std::filesystem::path& file, const SuiteDefaults& defaults) {
  const std::string name = "suite " + file.string();
  return parse_suite(read_json_file(file, name), name, defaults);
}

}  // namespace kvscope
