// oracle-base, oracle-greedy-gap and metrics-regret of policy-vectors.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "metrics/oracle/oracles.h"
#include "metrics/oracle/skill.h"
#include "tests/metrics/oracle/full_attention.h"
#include "tests/runner/policies/vector_file.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;

// Sums of at most 12 weights <= 1 in double: 12 roundings of 1e-16. The files' decimals are exact
// to 1e-16 as well.
constexpr double kDouble = 1e-14;
// The same weights rounded to float: 12 relative errors of 6e-8.
constexpr double kFloat = 1e-6;

// For each single eviction: its row, its victim.
std::pair<std::vector<int>, std::vector<int>> columns_of(const Schedule& schedule) {
  std::pair<std::vector<int>, std::vector<int>> columns;
  for (const Eviction& eviction : schedule) {
    columns.first.push_back(eviction.row);
    columns.second.push_back(eviction.token);
  }
  return columns;
}

template <class Weight>
void expect_oracles(const std::string& id, double tolerance) {
  const json& vector = policy_vector(id);
  const json& expect = vector.at("expect");
  const OracleSetting setting{vector.at("params").at("B"), vector.at("params").at("protect_last")};
  const FullAttention<Weight> attention(exp_logits(vector.at("input")),
                                        vector.at("input").at("prompt_len"));
  const FutureMass future = attention.future();
  const Schedule optimal = optimal_schedule(future, setting);
  const Schedule greedy = greedy_schedule(future, setting);
  EXPECT_EQ(columns_of(optimal).first, expect.at("eviction_times").get<std::vector<int>>());
  EXPECT_EQ(columns_of(optimal).second, expect.at("optimal_victims").get<std::vector<int>>());
  EXPECT_EQ(columns_of(greedy).first, expect.at("eviction_times").get<std::vector<int>>());
  EXPECT_EQ(columns_of(greedy).second, expect.at("greedy_victims").get<std::vector<int>>());
  EXPECT_NEAR(lost_mass(future, optimal), expect.at("optimal_lost_mass").at("val"), tolerance);
  EXPECT_NEAR(lost_mass(future, greedy), expect.at("greedy_lost_mass").at("val"), tolerance);
  EXPECT_NEAR(step_oracle_lost_mass(attention.view(), setting.budget_tokens),
              expect.at("step_oracle_lost_mass").at("val"), tolerance);
}

TEST(OracleVectors, oracle_base) {
  expect_oracles<double>("oracle-base", kDouble);
  expect_oracles<float>("oracle-base", kFloat);
}

TEST(OracleVectors, oracle_greedy_gap) {
  expect_oracles<double>("oracle-greedy-gap", kDouble);
  expect_oracles<float>("oracle-greedy-gap", kFloat);
}

TEST(OracleVectors, the_table_of_section_10) {
  const FullAttention<> attention(policy_vectors().at("base").at("A"), 5);
  EXPECT_EQ(optimal_schedule(attention.future(), {.budget_tokens = 4}),
            (Schedule{{4, 1}, {5, 2}, {6, 4}}));
}

Schedule schedule_of_steps(const json& steps) {
  Schedule schedule;
  for (const json& step : steps) {
    for (const json& token : step.at("evicted")) schedule.push_back({step.at("t"), token});
  }
  return schedule;
}

TEST(OracleVectors, metrics_regret) {
  const std::map<std::string, std::string> vector_of = {
      {"h2o_sum", "h2o-sum"}, {"h2o_mean", "h2o-mean"},    {"tova", "tova-1head"},
      {"lru_thr", "lru-thr"}, {"window", "window-1"},      {"scissorhands_m1", "scissorhands-m1"},
      {"random", "random-1"}, {"streaming", "streaming-1"}};
  const json& vector = policy_vector("metrics-regret");
  const json& expect = vector.at("expect");
  const FullAttention<> attention(exp_logits(vector.at("input")),
                                  vector.at("input").at("prompt_len"));
  const FutureMass future = attention.future();
  const int budget_tokens = vector.at("params").at("B");
  std::map<std::string, double> losses = {
      {"oracle_opt", lost_mass(future, optimal_schedule(future, {budget_tokens}))},
      {"oracle_step", step_oracle_lost_mass(attention.view(), budget_tokens)}};
  for (const auto& [name, id] : vector_of) {
    losses[name] = lost_mass(future, schedule_of_steps(policy_vector(id).at("expect").at("steps")));
  }
  const json& expected_losses = expect.at("lost_mass_sum_over_decode_steps");
  EXPECT_EQ(losses.size(), expected_losses.size());
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    EXPECT_NEAR(loss, expected_losses.at(name).at("val"), kDouble);
    EXPECT_NEAR(regret(loss, losses["oracle_opt"]), expect.at("regret").at(name).at("val"),
                kDouble);
    // The denominator is 19/60: roundings grow threefold.
    EXPECT_NEAR(skill(loss, losses["oracle_opt"], losses["random"]).value(),
                expect.at("skill_vs_random").at(name), 1e-13);
  }
}

}  // namespace
}  // namespace kvscope::testing
