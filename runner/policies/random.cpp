// Random: the control that any policy must beat.
//
//   score(i) = smix(smix(seed ^ smix(layer << 32 | kv_head)) ^ i)          mode=reservoir
//
// a static priority (SplitMix64; policies.md 2.5): the B tokens of largest priority are a uniform
// sample of all tokens seen.
//
//   score(i) = the same of seed ^ smix(t), drawn anew at row t             mode=uniform_victim
//
// evicts a uniformly random resident; survival decays with age, so it favours new tokens.
//
// Needs: nothing.
//
// State: none; priorities are computed from positions.
//
// Deviations: the newest token is protected unless protect_last=false.
#include <algorithm>
#include <array>

#include "runner/base/splitmix.h"
#include "runner/policies/builtin.h"
#include "runner/policies/host_policy.h"
#include "runner/policies/params.h"
#include "runner/policies/rule_state.h"

namespace kvscope {
namespace {

std::vector<float> fresh_priorities(std::uint64_t seed, UnitPlace place,
                                    std::span<const std::int32_t> positions) {
  const auto newest =
      static_cast<std::uint64_t>(*std::max_element(positions.begin(), positions.end()));
  std::vector<float> scores;
  for (const std::int32_t position : positions) {
    // The upper 24 bits are exact in float32.
    scores.push_back(
        static_cast<float>(static_priority(seed ^ smix(newest + 1), place, position) >> 40U));
  }
  return scores;
}

class FreshPriorities final : public ScoreState {
 public:
  FreshPriorities(std::uint64_t seed, UnitPlace place) : seed_(seed), place_(place) {}
  std::unique_ptr<ScoreState> clone() const override {
    return std::make_unique<FreshPriorities>(*this);
  }
  void observe(const VisibleRow&) override {}
  std::vector<float> scores(const Slots& slots) const override {
    return fresh_priorities(seed_, place_, slots.positions);
  }
  void compact(std::span<const std::int32_t>) override {}

 private:
  std::uint64_t seed_;
  UnitPlace place_;
};

class UniformVictim final : public FittedPolicy {
 public:
  UniformVictim(const PolicySpec& spec, const Fitting& fitting, std::uint64_t seed)
      : FittedPolicy(spec, fitting), seed_(seed) {}

 protected:
  PromptNeed cut_need() const override { return {}; }
  std::unique_ptr<ScoreState> make_score(UnitPlace place) const override {
    return std::make_unique<FreshPriorities>(seed_, place);
  }
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override {
    std::vector<PromptScores> units(layer.n_kv_heads);
    for (int h = 0; h < layer.n_kv_heads; ++h) {
      const UnitPlace place{layer.layer, h, layer.n_layers};
      units[h].scores = fresh_priorities(seed_, place, positions_up_to(layer.prompt_tokens));
      units[h].state = make_score(place);
    }
    return units;
  }

 private:
  std::uint64_t seed_;
};

std::unique_ptr<Policy> make_random(const PolicySpec& spec, const FitRequest& request,
                                    int budget_tokens) {
  if (spec.params.at("mode") == "uniform_victim") {
    return std::make_unique<UniformVictim>(
        spec,
        Fitting{.budget_tokens = budget_tokens,
                .prompt_tokens = request.length,
                .rule = host_rule(budget_tokens, ScanRule::Scope::kHead, 0),
                .protection = {.last = spec.protect_last}},
        seed_param(spec, "seed"));
  }
  ScanRule rule;
  rule.victim = ScanRule::Victim::kPriority;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = spec.protect_last;
  rule.seed = seed_param(spec, "seed");
  return std::make_unique<RulePolicy>(spec, request, rule);
}

constexpr std::array<ParamInfo, 2> kParams = {{
    {"seed", "0", "0…18446744073709551615"},
    {"mode", "reservoir", "reservoir|uniform_victim"},
}};

}  // namespace

PolicyInfo random_policy() {
  return {.name = "random",
          .summary =
              "Keeps a uniform random sample of all tokens seen, or drops a random one each row.",
          .paper = "control",
          .source = "runner/policies/random.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_random};
}

}  // namespace kvscope
