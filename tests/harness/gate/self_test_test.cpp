#include "harness/gate/self_test.h"

#include <gtest/gtest.h>

#include "runner/base/error.h"
#include "tests/harness/gate/gate_store.h"

namespace kvscope {
namespace {

std::vector<Pair> recorded(int n) {
  std::vector<Pair> pairs;
  for (int i = 0; i < n; ++i) {
    pairs.push_back(
        {std::to_string(i / 2), 1.0, 1.0 + testing::noise(3, i / 2) + testing::noise(4, i)});
  }
  return pairs;
}

TEST(SelfTest, TheRuleKeepsItsWordOnPairsOfClusters) {
  const SelfTest test = run_self_test(recorded(80), 0.05, 1'000, 1);
  EXPECT_EQ(test.clusters, 40);
  EXPECT_EQ(test.false_alarm_band.low, 32);  // binomial(1000, 0.05), 99 %, rounded outwards
  EXPECT_EQ(test.false_alarm_band.high, 69);
  EXPECT_TRUE(test.alarms_as_stated()) << test.false_alarms;
  EXPECT_TRUE(test.power_as_stated()) << test.detections;
  EXPECT_LT(test.planted_effect, 0.0);
  // The same draws again.
  EXPECT_EQ(run_self_test(recorded(80), 0.05, 1'000, 1).detections, test.detections);
}

TEST(SelfTest, NeedsSomethingToDraw) {
  EXPECT_THROW(run_self_test({}, 0.05, 100, 1), UsageError);
  EXPECT_THROW(run_self_test(std::vector<Pair>(8, {"c", 1.0, 2.0}), 0.05, 100, 1), UsageError);
  std::vector<Pair> equal;
  for (int i = 0; i < 20; ++i) equal.push_back({std::to_string(i), 10.0, 2.0});
  EXPECT_THROW(run_self_test(equal, 0.05, 100, 1), UsageError);
}

}  // namespace
}  // namespace kvscope
