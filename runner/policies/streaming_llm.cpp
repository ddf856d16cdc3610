// StreamingLLM: attention sinks and a window (Xiao et al., ICLR 2024, arXiv:2309.17453).
//
//   score_t(i) = ∞ for i < sinks, else the position of i
//   keep       : the first `sinks` tokens ever seen and the B - sinks newest
//
// Needs     : nothing.
// State     : none.
// Deviations: eviction follows the attention step (visible B + 1); the official `evict_for_space`
// makes room before it. RoPE
//             positions are ranks within the cache as in the paper (positions=cache_relative), for
//             comparisons also absolute.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr int kDefaultSinks = 4;

std::unique_ptr<Policy> make_streaming_llm(const PolicySpec& spec, const FitRequest& request,
                                           int budget_tokens) {
  ScanRule rule;
  rule.victim = ScanRule::Victim::kOldest;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  rule.sinks = fit_param(spec, request, "sinks", kDefaultSinks, budget_tokens - 1,
                         budget_tokens - 1, "the budget less one token");
  return std::make_unique<RulePolicy>(spec, request, rule,
                                      std::map<std::string, int>{{"sinks", rule.sinks}});
}

constexpr std::array<ParamInfo, 1> kParams = {{
    {"sinks", "auto", "0… (auto: 4, shrinks to B - 1)"},
}};

}  // namespace

PolicyInfo streaming_llm_policy() {
  return {.name = "streaming_llm",
          .summary = "Keeps the first tokens (attention sinks) and the newest ones.",
          .paper = "Xiao et al., ICLR 2024, arXiv:2309.17453",
          .source = "runner/policies/streaming_llm.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kCacheRelative,
          .make = make_streaming_llm};
}

}  // namespace kvscope
