#include "harness/store/sketches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "harness/store/database.h"
#include "harness/store/memory_kinds.h"
#include "harness/store/metric_info.h"
#include "harness/store/queries.h"
#include "harness/store/schema.h"
#include "harness/store/statement.h"
#include "runner/base/error.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using testing::make_older;
using testing::ok_outcome;
using testing::OpenStore;
using ::testing::SizeIs;
using testing::TempFolder;

TEST(Sketches, EveryQuantityOfTheProbeIsAMetric) {
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    EXPECT_NE(find_metric(quantity.metric), nullptr) << quantity.metric;
  }
}

TEST(Sketches, BinsSurviveTheirEncoding) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const SketchScale scale : {SketchScale::kRatio, SketchScale::kLog}) {
    Sketch sketch(scale);
    for (int i = 0; i < 3000; ++i) {
      const double value = uniform(random);
      sketch.add(scale == SketchScale::kLog ? value * value * value * 1e6 : value);
    }
    EXPECT_EQ(decode_bins(scale, sketch.min(), sketch.max(), encode_bins(sketch)), sketch);
    EXPECT_EQ(decode_bins(scale, 0, 0, {}), Sketch(scale));
  }
}

TEST(Sketches, BytesThatAreNoBinsAreADamagedDatabase) {
  Sketch sketch;
  for (const double value : {-0.5, 0.25, 1.0}) sketch.add(value);
  const std::vector<std::byte> whole = encode_bins(sketch);
  // Cut anywhere but between two bins, or anything at all: refused or some sketch, never a fault.
  EXPECT_THROW(decode_bins(SketchScale::kRatio, 0, 1, std::span(whole).first(1)), DataError);
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(random() % 24);
    for (std::byte& byte : bytes) byte = std::byte(random());
    try {
      EXPECT_GE(decode_bins(SketchScale::kLog, 0, 1, bytes).n(), 0);
    } catch (const DataError&) {
      continue;
    }
  }
}

SampleOutcome outcome_with(double rebound, int layer) {
  SampleOutcome outcome = ok_outcome(0.5);
  ProbeSummary probes;
  probes.rebound_mass.overall.add(rebound);
  probes.rebound_mass.sketch.add(rebound);
  probes.rebound_mass.worst_head = WorstHead{rebound, layer, 1};
  probes.mass_hit.sketch.add(1 - rebound);
  probes.mass_hit.worst_head = WorstHead{1 - rebound, layer, 1};
  outcome.probes = probes;
  Sketch kl(SketchScale::kLog);
  kl.add(rebound * 8);
  outcome.binned.push_back({"kl_full_nats", {}, {}, kl});
  outcome.ledger.by_kind.keys = {64, 128};
  outcome.ledger.by_kind.tables = {8, 8};
  return outcome;
}

const MetricSketch& of_metric(const std::vector<MetricSketch>& all, std::string_view metric) {
  for (const MetricSketch& one : all) {
    if (one.metric == metric) return one;
  }
  throw std::runtime_error("no sketch of " + std::string(metric));
}

TEST(Sketches, AreMergedOverSamples) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  s.store.record(run, s.other, s.sample(0), outcome_with(0.25, 0));
  s.store.record(run, s.other, s.sample(1), outcome_with(0.5, 1));
  s.store.record(run, s.other, s.sample(2), skipped_outcome("does_not_fit", "no"));
  const auto all = arm_sketches(s.store, s.other);
  EXPECT_THAT(all, SizeIs(3));  // empty ones are not kept
  const MetricSketch& rebound = of_metric(all, "rebound_mass");
  EXPECT_EQ(rebound.task, "needle");
  EXPECT_EQ(rebound.sketch.n(), 2);
  EXPECT_EQ(rebound.sketch.max(), 0.5);
  EXPECT_EQ(rebound.worst_head, (WorstHead{0.5, 1, 1}));
  EXPECT_EQ(of_metric(all, "mass_hit").worst_head, (WorstHead{0.5, 1, 1}));
  EXPECT_EQ(of_metric(all, "kl_full_nats").sketch.max(), 4.0);
  EXPECT_FALSE(of_metric(all, "kl_full_nats").worst_head);
  EXPECT_THAT(arm_sketches(s.store, s.full), SizeIs(0));

  const auto kinds = arm_kinds(s.store, s.other);
  EXPECT_THAT(kinds, SizeIs(6));
  EXPECT_EQ(kinds.front().kind, "keys");
  EXPECT_EQ(kinds.front().logical_bytes, 64);
  EXPECT_EQ(kinds.front().physical_bytes, 128);
}

TEST(Sketches, FilesOfOlderProgramsHaveNone) {
  for (const int version : {1, 2}) {
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
      EXPECT_THAT(arm_sketches(old, 2), SizeIs(0));
      EXPECT_THAT(arm_kinds(old, 2), SizeIs(0));
      EXPECT_FALSE(process_memory(old, 1));
    }
    OpenStore s(file);
    EXPECT_EQ(s.store.database().pragma("user_version"), kSchemaVersion);
    const auto run = s.begin("run-2");
    s.store.record(run, s.other, s.sample(1), outcome_with(0.5, 0));
    EXPECT_THAT(arm_sketches(s.store, s.other), SizeIs(3));
    EXPECT_FALSE(process_memory(s.store, run));
    put_process_memory(s.store, run, {1000, 400});
    EXPECT_EQ(process_memory(s.store, run)->process_peak_bytes, 1000);
    EXPECT_EQ(process_memory(s.store, run)->page_pool_peak_bytes, 400);
  }
}

}  // namespace
}  // namespace kvscope
