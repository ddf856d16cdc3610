// Single rebound events and evidence survival, in files of this program and of older ones.
#include <gtest/gtest.h>

#include "harness/store/event_queries.h"
#include "harness/store/queries.h"
#include "harness/store/schema.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using testing::make_older;
using testing::ok_outcome;
using testing::OpenStore;
using testing::TempFolder;

SampleOutcome traced(double nll, std::initializer_list<float> masses) {
  SampleOutcome outcome = ok_outcome(nll);
  int position = 0;
  for (const float mass : masses) {
    outcome.events.push_back(
        {{1, 0, position, 20, 25, 5, mass, 3, position % 2 == 0}, " ten\xff", {}});
    ++position;
  }
  outcome.events.front().kl_full_nats = 0.75;
  outcome.evidence = {{0, 4, {4, 2, 0, 1}}, {8, 4, {3, 2, 0, 0}}};
  return outcome;
}

TEST(Events, AreFoundHeaviestFirst) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  s.store.record(run, s.other, s.sample(0), traced(0.25, {0.75F, 0.5F, 0.125F}));
  s.store.record(run, s.other, s.sample(1), traced(2.0, {0.625F, 0.25F}));
  s.store.record(run, s.full, s.sample(0), traced(2.0, {0.6875F}));
  const auto masses = [](const std::vector<EventRow>& rows) {
    std::vector<float> list;
    for (const EventRow& row : rows) list.push_back(row.record.event.mass);
    return list;
  };
  EXPECT_EQ(masses(heaviest_events(s.store, 3)), (std::vector{0.75F, 0.6875F, 0.625F}));
  EXPECT_EQ(masses(heaviest_events_of_arm(s.store, s.other, 9)),
            (std::vector{0.75F, 0.625F, 0.5F, 0.25F, 0.125F}));
  EXPECT_EQ(masses(heaviest_events_of_sample(s.store, s.other, "s1", 9)),
            (std::vector{0.625F, 0.25F}));
  EXPECT_TRUE(heaviest_events(s.store, 0).empty());

  const EventRow first = heaviest_events(s.store, 1).front();
  EXPECT_EQ(first.arm_label, "h2o@0.200");
  EXPECT_EQ(first.sample_key, "s0");
  EXPECT_EQ(first.record.event, (ReboundEvent{1, 0, 0, 20, 25, 5, 0.75F, 3, true}));
  EXPECT_EQ(first.record.token, " ten\xef\xbf\xbd");
  EXPECT_EQ(first.record.kl_full_nats, 0.75);
  EXPECT_EQ(first.answered, true);
  EXPECT_EQ(heaviest_events_of_sample(s.store, s.other, "s1", 1).front().answered, false);
}

TEST(Events, TopOfAnArmIsReadFromTheIndex) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  Statement plan(s.store.database(),
                 "EXPLAIN QUERY PLAN SELECT arm_id,sample_id,nth FROM rebound_event WHERE arm_id=1 "
                 "ORDER BY mass DESC LIMIT 5");
  std::string steps;
  while (plan.step()) steps += plan.text(3) + "\n";
  EXPECT_NE(steps.find("event_by_mass"), std::string::npos) << steps;
  EXPECT_EQ(steps.find("TEMP B-TREE"), std::string::npos) << steps;
}

TEST(Events, EvidenceIsKeptHeadByHead) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  s.store.record(s.begin("run-1"), s.other, s.sample(0), traced(0.25, {0.5F}));
  Statement trace(s.store.database(),
                  "SELECT rows_fed,n_tokens,hex(alive) FROM evidence_trace ORDER BY rows_fed");
  ASSERT_TRUE(trace.step());
  EXPECT_EQ(trace.integer(1), 4);
  EXPECT_EQ(trace.text(2), "04000000020000000000000001000000");
  ASSERT_TRUE(trace.step());
  EXPECT_EQ(trace.integer(0), 8);
  EXPECT_FALSE(trace.step());
}

TEST(Events, SurvivalStandsBesideTheVerdict) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  const auto outcome = [](double nll, double survival) {
    SampleOutcome o = ok_outcome(nll);  // right below 1 nat
    o.metrics.emplace_back("evidence_survival", survival);
    BinnedMetric layers{"evidence_survival", {}, {}};
    layers.by_layer.resize(2);
    layers.by_layer[0].add(survival);
    layers.by_layer[1].add(0.0);
    o.binned.push_back(layers);
    return o;
  };
  s.store.record(run, s.other, s.sample(0), outcome(0.5, 1.0));
  s.store.record(run, s.other, s.sample(1), outcome(0.5, 0.5));
  s.store.record(run, s.other, s.sample(2), outcome(3.0, 0.25));
  const auto sets = survival_by_verdict(s.store, s.other);
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_EQ(sets[0].n_right, 2);
  EXPECT_EQ(sets[0].n_wrong, 1);
  EXPECT_EQ(sets[0].right, 0.75);
  EXPECT_EQ(sets[0].wrong, 0.25);
  EXPECT_EQ(sets[0].right_by_layer, (std::vector{0.75, 0.0}));
  EXPECT_EQ(sets[0].wrong_by_layer, (std::vector{0.25, 0.0}));
  EXPECT_TRUE(survival_by_verdict(s.store, s.full).empty());
}

TEST(Events, FilesOfOlderProgramsHaveNoneAndGetThem) {
  for (const int version : {1, 2, 3}) {
    TempFolder folder;
    const auto file = folder.path / "old.db";
    {
      OpenStore s(file);
      s.store.record(s.begin("run-1"), s.other, s.sample(0), ok_outcome(0.25));
      make_older(s.store.database(), version);
      s.store.checkpoint();
    }
    {
      Store old = Store::open(file, StoreAccess::kReadOnly);
      EXPECT_EQ(old.database().pragma("user_version"), version);
      EXPECT_TRUE(heaviest_events(old, 5).empty());
      EXPECT_TRUE(survival_by_verdict(old, 2).empty());
    }
    OpenStore s(file);
    EXPECT_EQ(s.store.database().pragma("user_version"), kSchemaVersion);
    EXPECT_EQ(arm_results(s.store, s.other).size(), 1U);
    s.store.record(s.begin("run-2"), s.other, s.sample(1), traced(2.0, {0.5F}));
    EXPECT_EQ(heaviest_events(s.store, 5).size(), 1U);
  }
}

}  // namespace
}  // namespace kvscope
