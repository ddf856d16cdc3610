// A policy under test: how to make it, and what it promises beyond what every policy must keep.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/policies/registry.h"
#include "runner/policies/spec.h"

namespace kvscope::conform {

using PolicyPtr = std::shared_ptr<const Policy>;
// Makes a policy of the registry with any parameters. A planted defect is one of these.
using MakePolicy = std::function<PolicyPtr(const PolicySpec&, const FitRequest&)>;

// The defaults hold for a policy of which nothing is known.
struct Traits {
  bool evicts = true;           // false: every token stays (full, quest)
  bool acts_in_stream = false;  // may act from the first token on
  bool protects_last = true;
  bool needs_layers = false;        // layers share a budget
  bool ragged = false;              // KV heads of a layer hold different numbers of tokens
  bool position_only = false;       // the kept set depends on positions alone, in any chunks
  bool one_set = false;             // of all KV heads of a layer
  bool heads_are_ordered = false;   // by seeds, or by ties between heads: they cannot be swapped
  bool scaled_attention = true;     // scores by attention keep their order when it is scaled
  bool scaled_keys = false;         // so do scores by keys
  bool same_cut_in_chunks = false;  // a prompt streamed in one chunk keeps what the dense cut keeps
};

struct Subject {
  std::string text;  // what the report calls it
  std::function<PolicyPtr(const FitRequest&)> make;
  Traits traits;
  // Of policies of the registry alone: relations between policies need other parameters.
  std::optional<PolicySpec> spec;
  MakePolicy make_other = {};

  std::string_view score() const { return spec ? std::string_view(spec->score) : ""; }
};

Traits traits_of(const PolicySpec& spec);
Subject subject_of(const PolicySpec& spec, const MakePolicy& make = fit_policy);

// Texts of one policy: the defaults, each other choice of each enumerated parameter, common
// parameters and parts that follow it. New policies and parameters are included without a change
// here.
std::vector<std::string> variants_of(const PolicyInfo& info);

// Of a fitted policy: tokens of the pages that it drops whole (1: none), pages of sinks, and how
// many tokens leave at once at least.
struct Granularity {
  int page_tokens = 1;
  int sink_pages = 0;
  int drop_tokens = 1;
};
Granularity granularity_of(const Policy& policy);

// The policy of a text, for a budget in tokens.
PolicyPtr fitted(const std::string& text, int budget_tokens, int length, bool in_stream = false,
                 const MakePolicy& make = fit_policy);

}  // namespace kvscope::conform
