// policies.md 9.10: the oracles' order, on seeded random attention, against every registered policy
// and against all schedules of tiny cases.
#include "metrics/oracle/oracles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "metrics/oracle/skill.h"
#include "tests/metrics/oracle/full_attention.h"
#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

// Sums of at most 20 · 20 weights <= 1 in double.
constexpr double kRounding = 1e-12;

using Rows = std::vector<std::vector<double>>;

Rows random_rows(Random& random, int n_tokens) {
  const bool ties = random.between(0, 2) == 0;
  Rows rows;
  for (int t = 0; t < n_tokens; ++t) {
    rows.emplace_back();
    for (int i = 0; i <= t; ++i) {
      rows.back().push_back(ties ? random.between(1, 3) : 1e-3 + random.uniform());
    }
  }
  return rows;
}

// Rows whose normalised weights are the mean over the query heads of one KV head.
Rows group_mean(const RandomCase& c, int kv_head) {
  Rows rows;
  for (int t = 0; t < c.table().n_tokens; ++t) {
    std::vector<double> mean(std::size_t(t) + 1, 0.0);
    for (int head = kv_head * c.group; head < (kv_head + 1) * c.group; ++head) {
      double sum = 0;
      for (int i = 0; i <= t; ++i) sum += c.table().at(head, t, i);
      for (int i = 0; i <= t; ++i) mean[std::size_t(i)] += c.table().at(head, t, i) / sum / c.group;
    }
    rows.push_back(mean);
  }
  return rows;
}

// The least loss over all schedules, one victim at a time.
double least_loss(const FutureMass& future, const OracleSetting& setting,
                  const std::vector<EvictionEvent>& events, std::size_t event, int done,
                  std::vector<bool>& gone) {
  if (event == events.size()) return 0;
  if (done == events[event].n_victims) {
    return least_loss(future, setting, events, event + 1, 0, gone);
  }
  double least = std::numeric_limits<double>::infinity();
  const int row = events[event].row;
  for (int token = 0; token < row + (setting.protect_last ? 0 : 1); ++token) {
    if (gone[token]) continue;
    gone[token] = true;
    least = std::min(least, future.after(row)[token] +
                                least_loss(future, setting, events, event, done + 1, gone));
    gone[token] = false;
  }
  return least;
}

TEST(Oracles, no_schedule_of_tiny_cases_is_better_than_the_optimum) {
  int greedy_is_worse = 0;
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int n_tokens = random.between(2, 8);
    const FullAttention<> attention(random_rows(random, n_tokens), random.between(1, n_tokens));
    const OracleSetting setting{random.between(1, n_tokens), random.between(0, 1) == 0};
    const FutureMass future = attention.future();
    std::vector<bool> gone(std::size_t(n_tokens), false);
    const double least = least_loss(
        future, setting, eviction_events(attention.prompt_tokens, n_tokens, setting.budget_tokens),
        0, 0, gone);
    EXPECT_NEAR(lost_mass(future, optimal_schedule(future, setting)), least, kRounding);
    const double greedy = lost_mass(future, greedy_schedule(future, setting));
    EXPECT_GE(greedy, least - kRounding);
    greedy_is_worse += greedy > least + kRounding;
  }
  EXPECT_GT(greedy_is_worse, 0);  // else these cases would not tell the two apart
}

// What the decode rows lose when they see exactly these sets (itself included).
double loss_of_visible(const FullAttention<>& attention, const std::vector<Positions>& visible) {
  double lost = 0;
  for (int t = attention.prompt_tokens; t < attention.n_tokens; ++t) {
    const Positions& seen = visible[std::size_t(t - attention.prompt_tokens)];
    const std::span<const double> row = attention.view().row(t);
    for (int i = 0; i <= t; ++i) {
      if (!std::binary_search(seen.begin(), seen.end(), i)) lost += row[i];
    }
  }
  return lost;
}

TEST(Oracles, lost_mass_is_the_attention_on_what_rows_do_not_see) {
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int n_tokens = random.between(2, 20);
    const FullAttention<> attention(random_rows(random, n_tokens), random.between(1, n_tokens));
    const FutureMass future = attention.future();
    const OracleSetting setting{random.between(1, n_tokens), random.between(0, 1) == 0};
    for (const Schedule& schedule :
         {optimal_schedule(future, setting), greedy_schedule(future, setting)}) {
      std::vector<Positions> visible;
      for (int t = attention.prompt_tokens; t < n_tokens; ++t) {
        visible.emplace_back();
        for (int i = 0; i <= t; ++i) {
          const bool is_gone =
              std::any_of(schedule.begin(), schedule.end(),
                          [&](const Eviction& e) { return e.token == i && e.row < t; });
          if (!is_gone) visible.back().push_back(i);
        }
        EXPECT_LE(std::ssize(visible.back()), setting.budget_tokens + 1);
        EXPECT_EQ(std::ssize(visible.back()), std::min(t + 1, setting.budget_tokens + 1));
      }
      EXPECT_NEAR(lost_mass(future, schedule), loss_of_visible(attention, visible), kRounding);
    }
  }
}

TEST(Oracles, step_oracle_keeps_the_heaviest_others_of_each_row) {
  const FullAttention<> attention({{1}, {1, 1}, {5, 1, 2}, {1, 4, 2, 1}}, 2);
  // Row 2 keeps token 0 (5/8) and itself, row 3 token 1 (4/8) and itself.
  EXPECT_DOUBLE_EQ(step_oracle_lost_mass(attention.view(), 1), 1.0 / 8 + 3.0 / 8);
  EXPECT_DOUBLE_EQ(step_oracle_lost_mass(attention.view(), 2), 1.0 / 8);
  EXPECT_EQ(step_oracle_lost_mass(attention.view(), 3), 0);
}

TEST(Oracles, prefill_oracle_keeps_the_heaviest_of_the_prompt_and_nothing_leaves_later) {
  const FullAttention<> attention({{1}, {1, 1}, {1, 1, 1}, {5, 1, 1, 1}, {1, 4, 2, 1, 0}}, 3);
  // R(2) = 6/8, 5/8, 3/8: the last one is the newest.
  const FutureMass future = attention.future();
  EXPECT_EQ(prefill_schedule(future, {.budget_tokens = 2}), (Schedule{{2, 1}}));
  EXPECT_EQ(prefill_schedule(future, {.budget_tokens = 2, .protect_last = false}),
            (Schedule{{2, 2}}));
  EXPECT_EQ(prefill_schedule(future, {.budget_tokens = 3}), Schedule{});
}

TEST(Oracles, item_10_step_optimal_greedy_and_the_budget) {
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int n_tokens = random.between(2, 20);
    const FullAttention<> attention(random_rows(random, n_tokens), random.between(1, n_tokens));
    const FutureMass future = attention.future();
    const bool protect_last = random.between(0, 1) == 0;
    double smaller_budget = std::numeric_limits<double>::infinity();
    double smaller_step = smaller_budget;
    for (int budget = 1; budget <= n_tokens; ++budget) {
      const OracleSetting setting{budget, protect_last};
      const double step = step_oracle_lost_mass(attention.view(), budget);
      const double optimal = lost_mass(future, optimal_schedule(future, setting));
      EXPECT_LE(step, optimal + kRounding);
      EXPECT_LE(optimal, lost_mass(future, greedy_schedule(future, setting)) + kRounding);
      EXPECT_LE(lost_mass(future, prefill_schedule(future, setting)), optimal + kRounding);
      EXPECT_LE(optimal, smaller_budget + kRounding);
      EXPECT_LE(step, smaller_step + kRounding);
      smaller_budget = optimal;
      smaller_step = step;
    }
    EXPECT_EQ(smaller_budget, 0);  // the last budget holds everything
    EXPECT_EQ(smaller_step, 0);
  }
}

// The replay has rows after the prompt and sums of the prompt's to give, but no keys.
bool can_be_replayed(const Policy& policy) {
  const auto needs_keys = [](const std::optional<ScanRule>& rule) {
    return rule && (rule->statistic == ScanRule::Statistic::kHost ||
                    rule->statistic == ScanRule::Statistic::kKeyNorm);
  };
  return policy.prompt_need() == policy.prompt_need().sums() && !needs_keys(policy.scan_rule()) &&
         !needs_keys(policy.streaming_rule());
}

TEST(Oracles, item_10_no_registered_policy_beats_them) {
  int checked = 0;
  for (const std::string& text : all_variants()) {
    const bool protect_last = parse_policy(text).protect_last;
    for (int seed = 0; seed < 60 && !HasFailure(); ++seed) {
      SCOPED_TRACE(text + " seed " + std::to_string(seed));
      const RandomCase c = random_case(seed);
      const auto policy = fitted(text, c.budget_tokens, c.prompt_tokens);
      if (!can_be_replayed(*policy)) continue;
      Replay replay(policy, c.layers);
      ++checked;
      std::vector<std::vector<Positions>> visible(std::size_t(c.n_kv_heads));
      replay.prompt(c.prompt_tokens);
      // Budgets of a head's own (and the full cache) count as what they are at the prompt's end;
      // what is larger later grows, and is bounded by the one-shot oracle.
      std::vector<int> budget_tokens;
      std::vector<bool> grows(std::size_t(c.n_kv_heads), false);
      for (int h = 0; h < c.n_kv_heads; ++h) {
        budget_tokens.push_back(std::max(c.budget_tokens, int(replay.kept(h).size())));
      }
      for (int t = c.prompt_tokens; t < c.table().n_tokens; ++t) {
        for (int h = 0; h < c.n_kv_heads; ++h) {
          if (std::ssize(replay.kept(h)) > budget_tokens[h]) grows[h] = true;
          visible[h].push_back(replay.kept(h));
          visible[h].back().push_back(t);
        }
        replay.step(t);
      }
      for (int h = 0; h < c.n_kv_heads; ++h) {
        const FullAttention<> attention(group_mean(c, h), c.prompt_tokens);
        const FutureMass future = attention.future();
        const OracleSetting setting{budget_tokens[h], protect_last};
        const Schedule bound =
            grows[h] ? prefill_schedule(future, setting) : optimal_schedule(future, setting);
        EXPECT_LE(lost_mass(future, bound), loss_of_visible(attention, visible[h]) + kRounding);
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(Oracles, refuse_what_is_no_attention_or_no_schedule) {
  const FullAttention<> attention({{1}, {1, 1}, {1, 1, 1}, {1, 1, 1, 1}}, 2);
  const FutureMass future = attention.future();
  EXPECT_THROW(lost_mass(future, Schedule{{1, 2}}), std::invalid_argument);  // not there yet
  EXPECT_THROW(lost_mass(future, Schedule{{1, 0}, {2, 0}}), std::invalid_argument);
  EXPECT_THROW(lost_mass(future, Schedule{{4, 0}}), std::invalid_argument);
  EXPECT_THROW(optimal_schedule(future, {.budget_tokens = 0}), std::invalid_argument);
  DecodeAttention<double> view = attention.view();
  view.n_tokens = 5;
  EXPECT_THROW(FutureMass{view}, std::invalid_argument);
  FullAttention<> negative = attention;
  negative.weights[0] = -1;
  EXPECT_THROW(negative.future(), std::invalid_argument);
  EXPECT_THROW(step_oracle_lost_mass(negative.view(), 1), std::invalid_argument);
}

TEST(Oracles, evictions_inside_the_prompt_cost_what_they_cost_at_its_end) {
  const FullAttention<> attention({{1}, {1, 1}, {1, 1, 2}, {1, 1, 1, 1}}, 2);
  EXPECT_EQ(lost_mass(attention.future(), Schedule{{0, 0}}), 1.0 / 4 + 1.0 / 4);
}

TEST(Skill, compares_with_chance_and_with_the_optimum) {
  EXPECT_DOUBLE_EQ(regret(0.75, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(skill(0.5, 0.5, 1.0).value(), 1);
  EXPECT_DOUBLE_EQ(skill(1.0, 0.5, 1.0).value(), 0);
  EXPECT_DOUBLE_EQ(skill(1.25, 0.5, 1.0).value(), -0.5);
  EXPECT_EQ(skill(0, 0, 0), std::nullopt);
  EXPECT_EQ(skill(1, 1, 1), std::nullopt);
  EXPECT_DOUBLE_EQ(regret_share(0.8, 0.2).value(), 0.75);
  EXPECT_EQ(regret_share(0, 0), std::nullopt);
}

}  // namespace
}  // namespace kvscope::testing
