// The grammar SCORE[:key=value…][+PART[:key=value…]]… and how a parsed policy becomes one fitted to
// a budget.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/policies/policy.h"

namespace kvscope {

struct PolicyInfo;    // registry.h
class PolicyCatalog;  // catalog.h

// Among the params of a plug-in's policy: results of two builds of it are not the same arm's.
inline constexpr const char* kPluginSha256 = "plugin_sha256";

struct PartSpec {
  std::string name;                           // registry name (parts.h)
  std::map<std::string, std::string> params;  // defaults filled in
  std::map<std::string, std::string> written;
};

// A parsed, validated policy text. Parameters with defaults filled in; the ones that follow the
// budget and were not written (recent, window, sinks) hold "auto".
struct PolicySpec {
  // The label of the policy: SCORE and PARTs with the parameters that differ from the defaults, in
  // registry order. A written recent, window or sinks is always there, as it does not shrink.
  std::string canonical;
  std::string score;                       // registry name
  std::shared_ptr<const PolicyInfo> info;  // its entry; keeps a plug-in loaded
  std::map<std::string, std::string> params;
  std::map<std::string, std::string> written;  // what the user wrote
  std::vector<PartSpec> parts;                 // in registry order
  std::string_view implied_part;               // budgets that belong to the score itself (cake)
  DecodeMode decode = DecodeMode::kSelf;
  PositionMode positions = PositionMode::kAbsolute;
  PrefillMode prefill = PrefillMode::kMonolithic;
  int chunk = 1;
  int every = 1;  // decode rows between selections
  bool protect_last = true;

  bool is_full() const { return score == "full"; }
  // The baseline itself: the full cache as the model made it.
  bool is_reference() const { return is_full() && parts.empty(); }
  bool acts_in_stream() const;  // decode = self and the score has an in-stream rule
};

// Throws UsageError: unknown policy or parameter (suggests the nearest), bad value, parameter given
// twice. Without a catalogue: the built-in policies.
PolicySpec parse_policy(std::string_view text, const PolicyCatalog& catalog);
PolicySpec parse_policy(std::string_view text);
// Duplicates are a UsageError.
std::vector<PolicySpec> parse_policy_list(std::string_view comma_separated,
                                          const PolicyCatalog& catalog);
std::vector<PolicySpec> parse_policy_list(std::string_view comma_separated);

// A ratio in whole permille, or tokens. Exactly one is set, except for `full`, which is 1000
// permille.
struct Budget {
  std::optional<int> permille;  // 1 … 1000
  std::optional<int> tokens;    // ≥ 1
  std::string label() const;    // "0.200" or "256tok"
  // B = max(1, ⌊permille · P / 1000⌋) (policies.md 1.3)
  int tokens_for(int prompt_tokens) const;
  bool operator==(const Budget&) const = default;
};
// UsageError: not a number, ≤ 0, > 1, no whole permille.
Budget parse_budget_ratio(std::string_view text);
// "0.1,0.2,0.5" or "0.1:0.5:0.1" (FIRST:LAST:STEP, inclusive). UsageError also for duplicates.
std::vector<Budget> parse_budget_list(std::string_view text);

// budget: what the arm asks for; length: the tokens ratios refer to (the prompt, or all ids in
// stream).
struct FitRequest {
  Budget budget;
  int length = 0;          // P
  bool in_stream = false;  // acts from the first token; there is no prompt-end cut
};
// Throws DoesNotFit if a written window, recent or sinks does not fit the budget or the prompt.
struct DoesNotFit;
std::shared_ptr<const Policy> fit_policy(const PolicySpec& spec, const FitRequest& request);

}  // namespace kvscope
