// Traced sweeps: the events are those that are counted, and nothing else changes.
#include <gmock/gmock.h>

#include "harness/store/event_queries.h"
#include "runner/base/error.h"
#include "tests/harness/tasks/sweep_fixture.h"

namespace kvscope {
namespace {

using TraceSweep = testing::SweepTest;
using ::testing::HasSubstr;

constexpr const char* kTasks = "needle:length=300:samples=3,perplexity:context=64:windows=2";
constexpr const char* kArm = "h2o@0.200";

double metric(Store& store, const ArmRow& arm, const std::string& sample, const char* name) {
  for (const ResultRow& row : arm_results(store, arm.arm_id)) {
    if (row.sample_key != sample) continue;
    for (const auto& [key, value] : row.metrics) {
      if (key == name) return value;
    }
  }
  ADD_FAILURE() << sample << " has no " << name;
  return 0.0;
}

TEST_F(TraceSweep, EventsOfATracedSampleAreThoseThatAreCounted) {
  SweepOptions o = options("traced.db", "h2o,streaming_llm", "0.2", kTasks);
  o.trace = {"all"};
  o.events = 100'000;
  run(o);
  run(options("plain.db", "h2o,streaming_llm", "0.2", kTasks));
  Store store = read("traced.db");
  Store plain = read("plain.db");
  const ArmRow arm = find_arm(store, kArm);
  EXPECT_EQ(fingerprint(store, kArm), fingerprint(plain, kArm));
  EXPECT_TRUE(heaviest_events(plain, 10).empty());
  int n_events = 0;
  for (const ResultRow& row : arm_results(store, arm.arm_id)) {
    const auto events = heaviest_events_of_sample(store, arm.arm_id, row.sample_key, 1'000'000);
    n_events += int(events.size());
    EXPECT_EQ(double(events.size()), metric(store, arm, row.sample_key, "rebound_events"))
        << row.sample_key;
    for (const EventRow& event : events) {
      EXPECT_FALSE(event.record.token.empty());
      EXPECT_EQ(event.answered.has_value(), row.task == "needle");
    }
  }
  EXPECT_GT(n_events, 50);
  // Streaming's positions are relative to its cache: no full attention over the ghosts is defined.
  EXPECT_TRUE(
      heaviest_events_of_arm(store, find_arm(store, "streaming_llm@0.200").arm_id, 5).empty());
  Statement compared(store.database(),
                     "SELECT count(*) FROM rebound_event WHERE kl_full_nats IS NOT NULL");
  ASSERT_TRUE(compared.step());
  EXPECT_GT(compared.integer(0), 0);
}

TEST_F(TraceSweep, OnlyNamedSamplesAndTheHeaviestEventsAreKept) {
  SweepOptions o = options("a.db", "h2o", "0.2", "needle:length=300:samples=3");
  const std::string key = "magic_number:length=300:depth=50.0:sample=1";
  o.trace = {key};
  o.events = 5;
  run(o);
  Store store = read("a.db");
  const auto events = heaviest_events(store, 100);
  ASSERT_EQ(events.size(), 5U);
  for (const EventRow& event : events) EXPECT_EQ(event.sample_key, key);
  Statement evidence(store.database(), "SELECT count(DISTINCT sample_id) FROM evidence_trace");
  ASSERT_TRUE(evidence.step());
  EXPECT_EQ(evidence.integer(0), 1);
}

TEST_F(TraceSweep, AnUnknownSampleIsRefusedBeforeAnythingRuns) {
  SweepOptions o = options("a.db", "h2o", "0.2", "needle:length=300:samples=3");
  o.trace = {"no_such_sample"};
  EXPECT_THROW(run(o), UsageError);
  o.trace = {"all"};
  o.probe = "off";
  EXPECT_THROW(run(o), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder_.path / "a.db"));
}

TEST_F(TraceSweep, EvidenceSurvivalIsWhatTheBudgetLeaves) {
  run(options("a.db", "sliding_window,h2o", "0.5", "needle:length=300:samples=3,qa:samples=2"));
  Store store = read("a.db");
  const std::string first = "magic_number:length=300:depth=0.0:sample=0";
  const std::string last = "magic_number:length=300:depth=100.0:sample=2";
  EXPECT_EQ(metric(store, find_arm(store, "full"), first, "evidence_survival"), 1.0);
  const ArmRow window = find_arm(store, "sliding_window@0.500");
  EXPECT_EQ(metric(store, window, first, "evidence_survival_cut"), 0.0);
  EXPECT_EQ(metric(store, window, first, "evidence_survival"), 0.0);
  EXPECT_EQ(metric(store, window, last, "evidence_survival_cut"), 1.0);
  const double of_h2o = metric(store, find_arm(store, "h2o@0.500"), first, "evidence_survival");
  EXPECT_GE(of_h2o, 0.0);
  EXPECT_LE(of_h2o, metric(store, find_arm(store, "h2o@0.500"), first, "evidence_survival_cut"));
  Statement layers(store.database(),
                   "SELECT count(DISTINCT layer),min(n) FROM layer_stat JOIN metric "
                   "USING(metric_id) WHERE name='evidence_survival'");
  ASSERT_TRUE(layers.step());
  EXPECT_GT(layers.integer(0), 1);
}

}  // namespace
}  // namespace kvscope
