#include "metrics/stats/sample_size.h"

#include <gtest/gtest.h>

namespace kvscope {
namespace {

// Expected values: SciPy 1.17, nct.sf(t.ppf(1 - alpha, df), df, effect) and its inverse. Both
// libraries sum series to double precision; they were seen to agree to 1e-11.
constexpr double kSeries = 1e-9;

TEST(SampleSize, PowerIsTheNoncentralTs) {
  EXPECT_NEAR(one_sided_power(2.5, 9, 0.05), 0.7457370182137848, kSeries);
  EXPECT_NEAR(one_sided_power(3.0, 19, 0.01), 0.6765684936450065, kSeries);
  EXPECT_NEAR(one_sided_power(0.5, 4, 0.05), 0.11057106467290975, kSeries);
  EXPECT_NEAR(one_sided_power(2.6, 99, 0.05), 0.8257010284121283, kSeries);
  EXPECT_NEAR(one_sided_power(0.0, 9, 0.05), 0.05, 1e-15);
}

TEST(SampleSize, DetectableEffectInvertsPower) {
  EXPECT_NEAR(detectable_effect_in_se(9, 0.05, 0.8), 2.6969090127055346, kSeries);
  EXPECT_NEAR(detectable_effect_in_se(19, 0.01, 0.8), 3.4151776646047085, kSeries);
  EXPECT_NEAR(detectable_effect_in_se(99, 0.05, 0.9), 2.9466361958856164, kSeries);
  EXPECT_NEAR(detectable_effect_in_se(1, 0.05, 0.8), 8.192258433683502, 1e-8);
  // Many clusters: (z.95 + z.80) of the normal distribution.
  EXPECT_NEAR(detectable_effect_in_se(1'000'000, 0.05, 0.8), 2.486475, 1e-5);
}

TEST(SampleSize, ClustersNeeded) {
  EXPECT_EQ(clusters_needed(0.1, 0.05, 25, 0.05, 0.8), 41);  // by counting upwards with SciPy
  EXPECT_EQ(clusters_needed(0.02, 0.01, 30, 0.01, 0.8), 78);
  EXPECT_EQ(clusters_needed(1.0, 0.2, 10, 0.05, 0.8), 5);
  EXPECT_EQ(clusters_needed(0.1, 0.0, 10, 0.05, 0.8), 2);
  EXPECT_EQ(clusters_needed(1e-9, 1.0, 10, 0.05, 0.8), std::nullopt);
}

}  // namespace
}  // namespace kvscope
