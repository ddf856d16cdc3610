// Policies that are a rule as data.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "runner/policies/host_policy.h"
#include "runner/policies/key_scores.h"
#include "runner/policies/rule_state.h"

namespace kvscope {
namespace {

using Statistic = ScanRule::Statistic;
using Victim = ScanRule::Victim;
using Scope = ScanRule::Scope;

// A rule's scores for what needs them apart from its selection (whole pages).
class RuleScore final : public ScoreState {
 public:
  RuleScore(const ScanRule& rule, UnitPlace place, const KeptHead& start = {})
      : rule_(rule), place_(place), state_(rule, place, start) {}

  std::unique_ptr<ScoreState> clone() const override { return std::make_unique<RuleScore>(*this); }
  void observe(const VisibleRow& row) override { state_.observe(row); }
  std::vector<float> scores(const Slots& slots) const override {
    if (rule_.statistic != Statistic::kNone) return state_.scores();
    std::vector<float> scores;
    scores.reserve(slots.positions.size());
    for (const std::int32_t position : slots.positions) {
      // Exact in float32: positions stay below 2^24, and of a priority the upper 24 bits are taken.
      scores.push_back(
          rule_.victim == Victim::kOldest
              ? static_cast<float>(position)
              : static_cast<float>(static_priority(rule_.seed, place_, position) >> 40U));
    }
    return scores;
  }
  void compact(std::span<const std::int32_t> old_slot_of) override { state_.compact(old_slot_of); }
  std::int64_t state_bytes() const override {
    return static_cast<std::int64_t>(state_.statistic().size_bytes() + state_.count().size_bytes());
  }
  const RuleState& state() const { return state_; }

 private:
  ScanRule rule_;
  UnitPlace place_;
  RuleState state_;
};

Fitting fitting_of(const PolicySpec& spec, const FitRequest& request, const ScanRule& rule) {
  return {.budget_tokens = rule.budget_tokens,
          .prompt_tokens = request.length,
          .rule = rule,
          .one_set = rule.scope == Scope::kLayer || rule.victim == Victim::kOldest,
          .protection = {rule.sinks, rule.recent, spec.protect_last}};
}

}  // namespace

RulePolicy::RulePolicy(const PolicySpec& spec, const FitRequest& request, const ScanRule& rule,
                       const std::map<std::string, int>& fitted, int replay_rows)
    : FittedPolicy(spec, fitting_of(spec, request, rule)), rule_(rule), replay_rows_(replay_rows) {
  for (const auto& [name, value] : fitted) record(name, value);
}

PromptNeed RulePolicy::cut_need() const {
  switch (rule_.statistic) {
    case Statistic::kNone:
    case Statistic::kHost:
      return {};
    case Statistic::kLast:
      return {.rows = PromptNeed::Rows::kLast, .last_rows = 1};
    case Statistic::kSum:
    case Statistic::kMean:
      return {.rows = PromptNeed::Rows::kAll};
    case Statistic::kDecay:
      return {.rows = PromptNeed::Rows::kAll, .decay = rule_.decay};
    case Statistic::kLastUse:
      return {.replay_rows = replay_rows_};
    case Statistic::kKeyNorm:
      return {.raw_keys = true};  // as rows score the newest key, so that both agree to the bit
  }
  return {};
}

std::unique_ptr<ScoreState> RulePolicy::make_score(UnitPlace place) const {
  return std::make_unique<RuleScore>(rule_, place);
}

std::vector<PromptScores> RulePolicy::prompt_scores(const PromptLayer& layer) const {
  std::vector<PromptScores> units = scores_of_units(layer);
  if (!composition().page) return units;
  // Whole pages leave by a host score, which goes on from what the prompt's rows left.
  for (std::size_t u = 0; u < units.size(); ++u) {
    KeptHead start;
    start.positions = positions_up_to(layer.prompt_tokens);
    start.statistic = units[u].statistic;
    start.count = units[u].count;
    units[u].state = std::make_unique<RuleScore>(
        rule_, UnitPlace{layer.layer, static_cast<int>(u), layer.n_layers}, start);
  }
  return units;
}

std::vector<PromptScores> RulePolicy::scores_of_units(const PromptLayer& layer) const {
  const std::size_t n = layer.prompt_tokens;
  const int n_units = rule_.scope == Scope::kLayer ? 1 : layer.n_kv_heads;
  const int heads_per_unit = layer.n_heads / n_units;
  std::vector<PromptScores> units(n_units);
  if (rule_.statistic == Statistic::kLastUse) {
    std::vector<RuleScore> scores;
    std::vector<ScoreState*> pointers;
    for (int u = 0; u < n_units; ++u) scores.emplace_back(rule_, UnitPlace{layer.layer, u});
    for (RuleScore& score : scores) pointers.push_back(&score);
    replay_rows(layer, static_cast<int>(n) - std::min(replay_rows_, layer.prompt_tokens),
                heads_per_unit, pointers);
    for (int u = 0; u < n_units; ++u) {
      const auto last_use = scores[u].state().count();
      units[u].count.assign(last_use.begin(), last_use.end());
      units[u].integer_scores.assign(last_use.begin(), last_use.end());
      units[u].scores.assign(last_use.begin(), last_use.end());
    }
    return units;
  }
  for (int u = 0; u < n_units; ++u) {
    PromptScores& unit = units[u];
    if (rule_.statistic == Statistic::kKeyNorm) {
      const std::size_t keys = n * layer.head_dim;
      unit.statistic = knorm_scores(layer.raw_keys.subspan(u * keys, keys), layer.head_dim);
    } else if (rule_.statistic != Statistic::kNone) {
      assert(layer.column_weights.size() == n * layer.n_heads);
      const std::size_t first = static_cast<std::size_t>(u) * heads_per_unit * n;
      unit.statistic = mean_over_heads(layer.column_weights.subspan(first, heads_per_unit * n),
                                       heads_per_unit, n);
    }
    unit.scores = unit.statistic;
    if (rule_.statistic == Statistic::kMean) {
      for (std::size_t i = 0; i < n; ++i) {
        unit.count.push_back(static_cast<std::uint32_t>(n - i));
        unit.scores[i] /= static_cast<float>(n - i);
      }
    }
    if (rule_.victim == Victim::kOldest) unit.scores.resize(n);  // ties: the newest stay
    if (rule_.victim == Victim::kPriority) {
      for (std::size_t i = 0; i < n; ++i) {
        unit.integer_scores.push_back(
            static_priority(rule_.seed, {layer.layer, u}, static_cast<std::int32_t>(i)));
        unit.scores.push_back(static_cast<float>(unit.integer_scores.back() >> 40U));
      }
    }
  }
  return units;
}

}  // namespace kvscope
