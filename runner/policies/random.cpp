// Random: the control that any policy must beat.
//
//   score(i) = smix(smix(seed ^ smix(layer << 32 | kv_head)) ^ i)
//
// a static priority (SplitMix64; policies.md 2.5).
//
//   keep     : the B tokens of largest priority
//
// that is a uniform sample of all tokens seen (a reservoir).
//
// Needs: nothing.
//
// State: none; priorities are computed from positions.
//
// Deviations: the newest token is protected unless protect_last=false. Evicting a uniformly random
// resident at each step (mode=uniform_victim) is another, recency-biased control and not offered.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

std::unique_ptr<Policy> make_random(const PolicySpec& spec, const FitRequest&, int budget_tokens) {
  ScanRule rule;
  rule.victim = ScanRule::Victim::kPriority;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  rule.seed = seed_param(spec, "seed");
  return std::make_unique<RulePolicy>(spec, rule);
}

constexpr std::array<ParamInfo, 2> kParams = {{
    {"seed", "0", "0…18446744073709551615"},
    {"mode", "reservoir", "reservoir (a uniform sample of all tokens seen)"},
}};

}  // namespace

PolicyInfo random_policy() {
  return {.name = "random",
          .summary = "Keeps a uniform random sample of all tokens seen.",
          .paper = "control",
          .source = "runner/policies/random.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_random};
}

}  // namespace kvscope
