// One table of all policies; adding one touches its file and one line of registry.cpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/base/error.h"
#include "runner/policies/policy.h"
#include "runner/policies/spec.h"

namespace kvscope {

struct DoesNotFit : UsageError {  // in a sweep: a `skipped` row with this reason
  using UsageError::UsageError;
};

struct ParamInfo {
  std::string_view name;
  std::string_view fallback;  // default, "auto" where it follows the budget
  // For people and for validation: "0…" (integers), "odd 1…", "sum|mean", "float 0…1"; params.h.
  std::string_view values;
  std::string_view only_with = {};  // "norm=decay": writing it means something with that value only
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;           // one sentence
  std::string_view paper;             // citation, or "control"
  std::string_view source;            // file
  std::span<const ParamInfo> params;  // own parameters; the common ones are in common_params()
  bool has_in_stream_rule;            // false: acts at the prompt's end only
  DecodeMode default_decode;
  PositionMode default_positions;
  bool needs_prompt = false;            // its rule starts from a prompt's cut, not from nothing
  bool streams_prompt = true;           // has a selection for each chunk of a streamed prompt
  std::string_view own_part = {};       // layer budgets that belong to the score
  bool own_page = false;                // drops whole pages itself
  bool selects_itself = false;          // says who stays, not what each is worth
  std::string_view plugin_sha256 = {};  // of a plug-in's file; empty: built in
  std::function<std::unique_ptr<Policy>(const PolicySpec&, const FitRequest&, int budget_tokens)>
      make;
};

std::span<const PolicyInfo> policies();  // the built-in ones
std::span<const ParamInfo> common_params();
const PolicyInfo* find_policy(std::string_view name);  // among the built-in ones

}  // namespace kvscope
