// RuleState against a deliberately naive reading of the rule: one victim at a time by a linear
// search.
#include "runner/policies/rule_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runner/base/splitmix.h"
#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

struct NaiveToken {
  float acc = 0.0F;
  std::uint32_t count = 0;
};

// Ascending by position; `a` by head then token.
void naive_observe(const ScanRule& rule, std::map<std::int32_t, NaiveToken>& tokens,
                   const std::vector<float>& a, int n_heads) {
  std::size_t i = 0;
  for (auto& [position, token] : tokens) {
    float sum = 0.0F;
    for (int h = 0; h < n_heads; ++h) sum += a[h * tokens.size() + i];
    const float mean = sum * (1.0F / static_cast<float>(n_heads));
    switch (rule.statistic) {
      case ScanRule::Statistic::kNone:
        break;
      case ScanRule::Statistic::kSum:
      case ScanRule::Statistic::kMean:
        token.acc = token.acc + mean;
        break;
      case ScanRule::Statistic::kDecay:
        token.acc = rule.decay * token.acc;
        token.acc = token.acc + mean;
        break;
      case ScanRule::Statistic::kLast:
        token.acc = mean;
        break;
      case ScanRule::Statistic::kLastUse:
      case ScanRule::Statistic::kKeyNorm:
      case ScanRule::Statistic::kHost:
        break;  // not among the random rules
    }
    ++token.count;
    ++i;
  }
}

void naive_evict(const ScanRule& rule, UnitPlace place,
                 std::map<std::int32_t, NaiveToken>& tokens) {
  while (static_cast<int>(tokens.size()) > rule.budget_tokens) {
    const std::int32_t newest = tokens.rbegin()->first;
    const auto is_safe = [&](std::int32_t position) {
      return position < rule.sinks || position > newest - rule.recent ||
             (rule.protect_last && position == newest);
    };
    std::int32_t victim = -1;
    float victim_score = 0.0F;
    for (const auto& [position, token] : tokens) {
      if (is_safe(position)) continue;
      float score = token.acc;
      if (rule.statistic == ScanRule::Statistic::kMean) {
        score = token.acc / static_cast<float>(token.count);
      }
      bool takes = victim < 0;
      if (!takes && rule.victim == ScanRule::Victim::kLowest) {
        takes = !std::isnan(victim_score) && (std::isnan(score) || score < victim_score);
      } else if (!takes && rule.victim == ScanRule::Victim::kPriority) {
        takes =
            static_priority(rule.seed, place, position) < static_priority(rule.seed, place, victim);
      }
      if (takes) victim = position, victim_score = score;
    }
    tokens.erase(victim < 0 ? tokens.begin()->first : victim);
  }
}

ScanRule random_rule(Random& random, int budget_tokens) {
  ScanRule rule;
  rule.statistic = static_cast<ScanRule::Statistic>(random.between(0, 4));
  rule.victim = static_cast<ScanRule::Victim>(random.between(0, 2));
  if (rule.statistic == ScanRule::Statistic::kNone && rule.victim == ScanRule::Victim::kLowest) {
    rule.victim = ScanRule::Victim::kOldest;
  }
  rule.decay = static_cast<float>(random.uniform());
  rule.budget_tokens = budget_tokens;
  rule.sinks = random.between(0, budget_tokens);
  rule.recent = random.between(0, budget_tokens);
  rule.protect_last = random.between(0, 1) == 1;
  rule.seed = random.next();
  return rule;
}

TEST(RuleState, equals_a_naive_loop_bit_for_bit_over_random_rules) {
  for (int seed = 0; seed < 3000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const RandomCase c = random_case(seed);
    Random random(smix(seed ^ 0x5eedULL));
    const ScanRule rule = random_rule(random, c.budget_tokens);
    const int chunk = random.between(1, 3);
    const UnitPlace place{random.between(0, 3), random.between(0, 3)};
    RuleState state(rule, place, {});
    Positions slots;
    std::map<std::int32_t, NaiveToken> naive;
    for (int t = 0; t < c.table().n_tokens; ++t) {
      slots.push_back(t);
      naive[t] = {};
      auto a = probabilities(c.table(), 0, c.table().n_heads, t, slots);
      if (seed % 7 == 0 && t % 5 == 4) a[t % a.size()] = std::nanf("");
      state.observe({slots, a, c.table().n_heads});
      naive_observe(rule, naive, a, c.table().n_heads);
      if (t % chunk != chunk - 1) continue;
      const auto kept = state.select(slots);
      state.compact(kept);
      Positions remaining;
      for (const auto slot : kept) remaining.push_back(slots[slot]);
      slots = remaining;
      naive_evict(rule, place, naive);
      Positions expected;
      for (const auto& [position, token] : naive) expected.push_back(position);
      ASSERT_EQ(slots, expected) << "t=" << t;
    }
  }
}

TEST(RuleState, arithmetic_is_the_stated_one_to_the_bit) {
  ScanRule rule;
  rule.victim = ScanRule::Victim::kLowest;
  rule.budget_tokens = 8;
  const Positions positions = {0};
  const std::vector<float> row = {0.1F, 0.2F, 0.3F};  // three heads, one token
  const float a = (0.1F + 0.2F + 0.3F) * (1.0F / 3.0F);
  const auto score = [&](ScanRule::Statistic statistic) {
    rule.statistic = statistic;
    rule.decay = 0.7F;
    RuleState state(rule, {}, {});
    state.observe({positions, row, 3});
    state.observe({positions, row, 3});
    return state.scores()[0];
  };
  EXPECT_EQ(score(ScanRule::Statistic::kSum), a + a);
  EXPECT_EQ(score(ScanRule::Statistic::kMean), (a + a) / 2.0F);
  EXPECT_EQ(score(ScanRule::Statistic::kLast), a);
  const volatile float decayed = 0.7F * a;  // volatile: rounded before the sum
  EXPECT_EQ(score(ScanRule::Statistic::kDecay), decayed + a);
}

TEST(RuleState, item_23_a_reused_slot_starts_with_zero) {
  ScanRule rule;
  rule.statistic = ScanRule::Statistic::kMean;
  rule.victim = ScanRule::Victim::kLowest;
  rule.budget_tokens = 1;
  RuleState state(rule, {}, {});
  state.observe({Positions{0}, std::vector<float>{1.0F}, 1});
  state.observe({Positions{0, 1}, std::vector<float>{0.25F, 0.75F}, 1});
  const auto kept = state.select(Positions{0, 1});
  EXPECT_EQ(kept, (Positions{1}));
  state.compact(kept);
  state.observe({Positions{1, 2}, std::vector<float>{0.5F, 0.5F}, 1});
  EXPECT_EQ(state.scores(), (std::vector<float>{0.625F, 0.5F}));
}

TEST(RuleState, starts_from_what_the_prompt_kept) {
  ScanRule rule;
  rule.statistic = ScanRule::Statistic::kMean;
  rule.victim = ScanRule::Victim::kLowest;
  rule.budget_tokens = 2;
  KeptHead start;
  start.positions = {3, 5};
  start.statistic = {2.0F, 1.0F};
  start.count = {4, 1};
  RuleState state(rule, {}, start);
  EXPECT_EQ(state.scores(), (std::vector<float>{0.5F, 1.0F}));
  state.observe({Positions{3, 5, 6}, std::vector<float>{0.5F, 0.25F, 0.25F}, 1});
  EXPECT_EQ(state.scores(), (std::vector<float>{0.5F, 0.625F, 0.25F}));
  EXPECT_EQ(state.select(Positions{3, 5, 6}), (Positions{1, 2}));
}

// Kept tokens do not depend on the order of slots: a cache may overwrite a victim's slot.
TEST(RuleState, item_11_slot_order_does_not_matter) {
  for (int seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Random random(smix(seed));
    const int n = random.between(2, 12);
    const ScanRule rule = random_rule(random, random.between(1, n));
    Positions positions;
    std::vector<float> a;
    for (int i = 0; i < n; ++i) {
      positions.push_back(i * 3);
      a.push_back(static_cast<float>(random.between(1, 4)) / 8.0F);
    }
    RuleState state(rule, {}, {});
    state.observe({positions, a, 1});
    Positions kept;
    for (const auto slot : state.select(positions)) kept.push_back(positions[slot]);

    for (int i = n - 1; i > 0; --i) {
      const int j = random.between(0, i);
      std::swap(positions[i], positions[j]);
      std::swap(a[i], a[j]);
    }
    RuleState shuffled(rule, {}, {});
    shuffled.observe({positions, a, 1});
    Positions kept_shuffled;
    for (const auto slot : shuffled.select(positions)) kept_shuffled.push_back(positions[slot]);
    std::sort(kept_shuffled.begin(), kept_shuffled.end());
    EXPECT_EQ(kept_shuffled, kept);
  }
}

}  // namespace
}  // namespace kvscope::testing
