// A ScanRule executed as plain host code, independent of every backend's kernel. The arithmetic is
// fixed, so that both give the same bits: a = (a_0 + a_1 + … in head order) · (1.0f / n_heads);
// sum: acc + a; decay: round(decay · acc) + a; mean: acc / count.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runner/policies/policy.h"
#include "runner/policies/top_k.h"

namespace kvscope {

// Static priority of a position for Victim::kPriority; the largest stay (policies.md 2.5).
std::uint64_t static_priority(std::uint64_t seed, UnitPlace place, std::int32_t position);

// Mean over heads in the fixed order. values: [n_heads][n]; result: [n].
std::vector<float> mean_over_heads(std::span<const float> values, int n_heads, std::size_t n);

// Slots that stay under the rule. positions: [n]; scores: [n], read for Victim::kLowest only (may
// be empty otherwise); last_use: [n], read for Statistic::kLastUse only.
TopK keep_by_rule(const ScanRule& rule, UnitPlace place, std::span<const std::int32_t> positions,
                  std::span<const float> scores, std::span<const std::uint32_t> last_use = {});

class RuleState final : public PolicyState {
 public:
  // start: what the prompt kept; an empty statistic or count starts at zero.
  RuleState(const ScanRule& rule, UnitPlace place, const KeptHead& start);

  std::unique_ptr<PolicyState> clone() const override;
  void observe(const VisibleRow& row) override;
  std::vector<std::int32_t> select(const Slots& slots) const override;
  void compact(std::span<const std::int32_t> old_slot_of) override;
  std::uint64_t nan_scores() const override { return nan_scores_; }

  std::vector<float> scores() const;  // [n_slots], empty where nothing is observed
  std::span<const float> statistic() const { return statistic_; }
  std::span<const std::uint32_t> count() const { return count_; }

 private:
  ScanRule rule_;
  UnitPlace place_;
  std::vector<float> statistic_;      // [n_slots]
  std::vector<std::uint32_t> count_;  // [n_slots], kMean and kLastUse only
  std::uint64_t nan_scores_ = 0;
};

}  // namespace kvscope
