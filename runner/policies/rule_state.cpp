#include "runner/policies/rule_state.h"

#include <cassert>
#include <cmath>

#include "runner/base/norm.h"
#include "runner/base/splitmix.h"
#include "runner/policies/last_use.h"
#include "runner/policies/protect.h"

namespace kvscope {

std::uint64_t static_priority(std::uint64_t seed, UnitPlace place, std::int32_t position) {
  return token_priority(seed, place.layer, place.kv_head, position);
}

std::vector<float> mean_over_heads(std::span<const float> values, int n_heads, std::size_t n) {
  assert(values.size() == static_cast<std::size_t>(n_heads) * n);
  const float scale = 1.0F / static_cast<float>(n_heads);
  std::vector<float> mean(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
  for (int h = 1; h < n_heads; ++h) {
    const float* head = values.data() + static_cast<std::size_t>(h) * n;
    for (std::size_t i = 0; i < n; ++i) mean[i] += head[i];
  }
  for (float& value : mean) value *= scale;
  return mean;
}

TopK keep_by_rule(const ScanRule& rule, UnitPlace place, std::span<const std::int32_t> positions,
                  std::span<const float> scores, std::span<const std::uint32_t> last_use) {
  const Protection protection{rule.sinks, rule.recent, rule.protect_last};
  if (rule.statistic == ScanRule::Statistic::kLastUse) {
    const std::vector<std::uint64_t> uses(last_use.begin(), last_use.end());
    return keep_protected_and_best<std::uint64_t>(protection, positions, uses, rule.budget_tokens);
  }
  if (rule.victim == ScanRule::Victim::kLowest) {
    return keep_protected_and_best(protection, positions, scores, rule.budget_tokens);
  }
  // Equal priorities leave the order to the positions: the oldest goes first.
  std::vector<std::uint64_t> priorities(positions.size(), 0);
  if (rule.victim == ScanRule::Victim::kPriority) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      priorities[i] = static_priority(rule.seed, place, positions[i]);
    }
  }
  return keep_protected_and_best<std::uint64_t>(protection, positions, priorities,
                                                rule.budget_tokens);
}

RuleState::RuleState(const ScanRule& rule, UnitPlace place, const KeptHead& start)
    : rule_(rule), place_(place), statistic_(start.statistic), count_(start.count) {
  if (start.budget_tokens > 0) rule_ = with_budget(rule_, start.budget_tokens);
  if (keeps_statistic(rule_.statistic)) statistic_.resize(start.positions.size());
  if (!keeps_count(rule_.statistic)) return;
  if (rule_.statistic == ScanRule::Statistic::kLastUse && count_.empty())
    count_.assign(start.positions.begin(), start.positions.end());  // its own row
  count_.resize(start.positions.size());
}

std::unique_ptr<PolicyState> RuleState::clone() const { return std::make_unique<RuleState>(*this); }

void RuleState::observe(const VisibleRow& row) {
  using enum ScanRule::Statistic;
  if (rule_.statistic == kNone) return;
  const std::size_t n = row.positions.size();
  if (rule_.statistic == kKeyNorm) {
    if (statistic_.size() < n) statistic_.push_back(-norm(row.keys));
    nan_scores_ += std::isnan(statistic_.back()) ? 1 : 0;
    return;
  }
  const std::vector<float> a = mean_over_heads(row.probabilities, row.n_query_heads, n);
  if (rule_.statistic == kLastUse) {
    for (const float weight : a) nan_scores_ += std::isnan(weight) ? 1 : 0;
    for (std::size_t i = count_.size(); i < n; ++i)
      count_.push_back(static_cast<std::uint32_t>(row.positions[i]));
    mark_used(rule_, a, row.positions, count_);
    return;
  }
  assert(n >= statistic_.size());
  statistic_.resize(n);
  if (rule_.statistic == kMean) count_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    nan_scores_ += std::isnan(a[i]) ? 1 : 0;
    if (rule_.statistic == kLast) {
      statistic_[i] = a[i];
    } else if (rule_.statistic == kDecay) {
      const float decayed = rule_.decay * statistic_[i];
      statistic_[i] = decayed + a[i];
    } else {
      statistic_[i] += a[i];
    }
    if (rule_.statistic == kMean) ++count_[i];
  }
}

std::vector<float> RuleState::scores() const {
  std::vector<float> scores = statistic_;
  if (rule_.statistic == ScanRule::Statistic::kLastUse) return {count_.begin(), count_.end()};
  if (rule_.statistic == ScanRule::Statistic::kMean) {
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] /= static_cast<float>(count_[i]);
  }
  return scores;
}

std::vector<std::int32_t> RuleState::select(const Slots& slots) const {
  return keep_by_rule(rule_, place_, slots.positions, scores(), count_).slots;
}

void RuleState::compact(std::span<const std::int32_t> old_slot_of) {
  std::vector<float> statistic;
  std::vector<std::uint32_t> count;
  statistic.reserve(old_slot_of.size());
  // at(): rows that were compacted without having been observed are an error of the caller, which
  // conformance checks provoke on purpose.
  for (const std::int32_t slot : old_slot_of) {
    if (!statistic_.empty()) statistic.push_back(statistic_.at(slot));
    if (!count_.empty()) count.push_back(count_.at(slot));
  }
  statistic_ = std::move(statistic);
  count_ = std::move(count);
}

}  // namespace kvscope
