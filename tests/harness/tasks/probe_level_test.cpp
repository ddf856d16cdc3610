#include "harness/tasks/probe_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/report/probe_plan.h"
#include "runner/base/error.h"
#include "runner/policies/spec.h"
#include "tests/harness/tasks/sweep_fixture.h"

namespace kvscope {
namespace {

using kvscope::testing::SweepTest;
using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kTasks = "needle:length=300:samples=2,perplexity:context=128:windows=1";

TEST(ProbeLevels, HaveFourNames) {
  for (const char* name : {"off", "basic", "full", "all"})
    EXPECT_EQ(name_of(parse_probe_level(name)), name);
  for (const char* name : {"", "some", "Full"}) EXPECT_THROW(parse_probe_level(name), UsageError);
}

TEST(ProbeLevels, EachLooksAtMore) {
  EXPECT_FALSE(plan_of({ProbeLevel::kOff}, 30, 0));
  EXPECT_EQ(plan_of({ProbeLevel::kBasic}, 30, 0)->every, 0);
  EXPECT_EQ(plan_of({ProbeLevel::kFull}, 30, 0)->every, 8);
  EXPECT_TRUE(plan_of({ProbeLevel::kAll}, 30, 0)->is_complete());
}

TEST(ProbeLevels, WatchTheLayerOfTheSmallestBudgetToo) {
  ModelConfig model;
  model.n_layers = 30;
  model.n_heads = 9;
  model.n_kv_heads = 3;
  model.head_dim = 64;
  const auto probe = [&](const char* text) {
    const auto policy = fit_policy(parse_policy(text), {Budget{std::nullopt, 100}, 1000, true});
    return make_probe({ProbeLevel::kFull}, model, *policy, 0, 0);
  };
  EXPECT_EQ(probe("h2o")->plan().extra_layer, std::nullopt);
  EXPECT_EQ(probe("h2o+pyramid")->plan().extra_layer,
            std::nullopt);  // the last one, watched anyway
  EXPECT_EQ(probe("h2o:positions=cache_relative"), nullptr);
  EXPECT_EQ(probe("full"), nullptr);
}

TEST(ProbeLevels, KeysNameWhatDiffersFromTheDefault) {
  EXPECT_EQ(key_of(parse_probes("all", "f32", 0)), "all");
  EXPECT_EQ(key_of(parse_probes("full", "int8", 100)), "full ghosts=int8 ghost_cap=100");
  EXPECT_EQ(key_of(parse_probes("basic", "int8", 100)), "basic");  // remembers none
  EXPECT_THROW(parse_probes("full", "int4", 0), UsageError);
}

TEST_F(SweepTest, RoundedOrForgottenGhostsChangeNoResultAndAreStated) {
  const auto run_with = [&](const std::string& file, const std::string& ghosts, int cap) {
    SweepOptions o = options(file, "h2o,tova", "0.2", kTasks);
    o.ghosts = ghosts;
    o.ghost_cap = cap;
    return json::parse(run(o));
  };
  run_with("exact.db", "f32", 0);
  const json rounded = run_with("rounded.db", "int8", 20);
  EXPECT_EQ(rounded["probe_plan"]["text"],
            "all 2 layers, every step, int8 ghosts, at most 20 copied ghosts a head");
  Store exact = read("exact.db");
  Store store = read("rounded.db");
  for (const char* label : {"full@1.000", "h2o@0.200", "tova@0.200"})
    EXPECT_EQ(fingerprint(exact, label, false), fingerprint(store, label, false)) << label;
  for (const ResultRow& row : arm_results(store, find_arm(store, "tova@0.200").arm_id)) {
    const std::map<std::string, double> metrics(row.metrics.begin(), row.metrics.end());
    EXPECT_LT(metrics.at("ghost_coverage"), 1.0) << row.sample_key;
    EXPECT_GT(metrics.at("ghost_coverage"), 0.0) << row.sample_key;
    EXPECT_GT(metrics.at("ghost_logit_bound"), 0.0) << row.sample_key;
  }
}

TEST_F(SweepTest, NoLevelOfProbesChangesAResult) {
  const auto run_at = [&](const std::string& level) {
    SweepOptions o = options(level + ".db", "h2o,tova,snapkv", "0.2", kTasks);
    o.probe = level;
    run(o);
  };
  run_at("off");
  Store off = read("off.db");
  for (const std::string level : {"basic", "full", "all"}) {
    run_at(level);
    Store watched = read(level + ".db");
    for (const char* label : {"full@1.000", "h2o@0.200", "tova@0.200", "snapkv@0.200"})
      EXPECT_EQ(fingerprint(watched, label, false), fingerprint(off, label)) << level << label;
  }
}

TEST_F(SweepTest, EstimatesHaveTheirOwnNamesAndSayWhereTheyComeFrom) {
  SweepOptions o = options("a.db", "tova", "0.2", kTasks);
  o.probe = "";  // the default
  const json printed = json::parse(run(o));
  EXPECT_EQ(printed["probe_plan"]["text"], "sampled, 2 of 2 layers, every 8th step");
  EXPECT_EQ(printed["probe_plan"]["layers"], (json{0, 1}));
  Store store = read("a.db");
  const ArmRow tova = find_arm(store, "tova@0.200");
  for (const ResultRow& row : arm_results(store, tova.arm_id)) {
    EXPECT_THAT(row.metrics, Not(Contains(Key("rebound_mass")))) << row.sample_key;
    if (row.task == "perplexity")
      EXPECT_THAT(row.metrics, Contains(Key("rebound_mass_sampled"))) << row.sample_key;
  }
  EXPECT_EQ(stored_probe_plan(store, tova.sweep_uuid)["ghosts_every_steps"], 8);
}

TEST_F(SweepTest, TheTableSaysThatItsReboundIsSampled) {
  SweepOptions o = options("a.db", "tova", "0.2", kTasks);
  o.json = false;
  EXPECT_THAT(run(o), Not(HasSubstr("sampled")));
  o.probe = "full";
  EXPECT_THAT(run(o), HasSubstr("rebound, hit@32: sampled, 2 of 2 layers, every 8th step"));
}

TEST_F(SweepTest, APlanAtAnotherLevelIsAnotherSweep) {
  SweepOptions o = options("a.db", "tova", "0.2", kTasks);
  run(o);
  o.probe = "full";
  run(o);
  run(o);  // finished: nothing is run again
  Store store = read("a.db");
  EXPECT_THAT(list_runs(store), SizeIs(2));
  Statement mixed(store.database(),
                  "SELECT count(*) FROM (SELECT arm_id FROM sample_metric JOIN metric "
                  "USING(metric_id) WHERE name LIKE 'rebound_mass%' AND name NOT LIKE '%bursts' "
                  "GROUP BY arm_id HAVING count(DISTINCT name) > 1)");
  mixed.step();
  EXPECT_EQ(mixed.integer(0), 0);
}

}  // namespace
}  // namespace kvscope
