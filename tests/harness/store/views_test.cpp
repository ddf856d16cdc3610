// The summary that SQL computes equals the one of metrics/stats.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/store/database.h"
#include "harness/store/queries.h"
#include "harness/store/statement.h"
#include "metrics/stats/paired.h"
#include "runner/base/splitmix.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using testing::ok_outcome;
using testing::OpenStore;
using testing::TempFolder;

double uniform(std::uint64_t i) { return static_cast<double>(smix(i) >> 11) * 0x1p-53; }

TEST(Views, PairedSummaryEqualsTheClusteredT) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db", 60, 4);  // 15 clusters
  const auto run = s.begin("run-1");
  std::vector<Pair> pairs;
  for (int i = 0; i < 60; ++i) {
    const double cluster = uniform(1000 + static_cast<std::uint64_t>(i / 4));
    const double a = 2 * uniform(static_cast<std::uint64_t>(i));
    const double b = a + cluster + uniform(500 + static_cast<std::uint64_t>(i));
    s.store.record(run, s.full, s.sample(i), ok_outcome(a));
    s.store.record(run, s.other, s.sample(i), ok_outcome(b));
    pairs.push_back({"c" + std::to_string(i / 4), a, b});
  }
  const PairedT want = paired_t(pairs, std::nullopt);

  Statement row(
      s.store.database(),
      "SELECT n_pairs,n_clusters,delta,se2_paired,se2_cluster,a_mean,b_mean FROM v_ab_summary "
      "WHERE a_arm=? AND b_arm=? AND metric='gold_nll_nats'");
  row.bind(s.full, s.other);
  ASSERT_TRUE(row.step());
  EXPECT_EQ(row.integer(0), 60);
  EXPECT_EQ(row.integer(1), 15);
  // Sums of 60 numbers near 1 in another order: 1e-14 relative is expected, 1e-12 allowed.
  EXPECT_NEAR(row.real(2), *want.mean_difference, 1e-12);
  EXPECT_NEAR(std::sqrt(row.real(3)), *want.se_unclustered_paired, 1e-12);
  EXPECT_NEAR(std::sqrt(row.real(4)), want.inference->se_clustered, 1e-12);
  EXPECT_NEAR(row.real(6) - row.real(5), row.real(2), 1e-12);
  EXPECT_FALSE(row.step());

  const auto values = paired_values(s.store, s.full, s.other);
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[1].metric, "gold_nll_nats");
  EXPECT_EQ(values[1].a[7], pairs[7].a);
  EXPECT_EQ(values[1].b[7], pairs[7].b);
  EXPECT_EQ(values[1].clusters[7], "c1");
}

TEST(Views, DiscordantCountsOfABinaryMetric) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db", 4);
  const auto run = s.begin("run-1");
  // recall is 1 below one nat: full passes samples 0 to 2, the other only sample 3.
  const double a[] = {0.5, 0.5, 0.5, 2};
  const double b[] = {2, 2, 2, 0.5};
  for (int i = 0; i < 4; ++i) {
    s.store.record(run, s.full, s.sample(i), ok_outcome(a[i]));
    s.store.record(run, s.other, s.sample(i), ok_outcome(b[i]));
  }
  Statement row(s.store.database(),
                "SELECT only_a,only_b,delta,a_mean FROM v_ab_summary WHERE a_arm=? AND b_arm=? AND "
                "metric='recall'");
  row.bind(s.full, s.other);
  ASSERT_TRUE(row.step());
  EXPECT_EQ(row.integer(0), 3);
  EXPECT_EQ(row.integer(1), 1);
  EXPECT_EQ(row.real(2), -0.5);
  EXPECT_EQ(row.real(3), 0.75);
}

TEST(Views, MeansAreByDataSetAndLeaveOutSkippedSamples) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db", 4);
  const auto second =
      s.store.put_dataset({.key = "d2", .task = "qa", .name = "qa", .version = "1", .n_samples = 1},
                          std::vector<SampleRecord>{{"q0", "x", "q0", 5, {}}});
  const auto run = s.begin("run-1");
  s.store.record(run, s.full, s.sample(0), ok_outcome(0.25));
  s.store.record(run, s.full, s.sample(1), ok_outcome(0.75));
  s.store.record(run, s.full, s.sample(2), skipped_outcome("does_not_fit", "x"));
  s.store.record(run, s.full, s.store.sample_id(second, "q0"), ok_outcome(4));
  double needle = 0, qa = 0;
  std::optional<double> needle_se, qa_se;
  for (const ArmMetricRow& row : arm_metrics(s.store, s.full)) {
    if (row.metric != "gold_nll_nats") continue;
    (row.task == "qa" ? qa : needle) = row.mean;
    (row.task == "qa" ? qa_se : needle_se) = row.stderr_mean;
  }
  EXPECT_EQ(needle, 0.5);
  EXPECT_EQ(qa, 4);
  EXPECT_FALSE(qa_se);
  ASSERT_TRUE(needle_se);
  EXPECT_DOUBLE_EQ(*needle_se, 0.25);  // variance 0.125, √(0.125 / 2)
}

}  // namespace
}  // namespace kvscope
