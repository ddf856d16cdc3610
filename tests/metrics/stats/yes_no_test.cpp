#include <gtest/gtest.h>

#include <cmath>

#include "metrics/stats/mcnemar.h"
#include "metrics/stats/wilson.h"

namespace kvscope {
namespace {

TEST(McNemar, SumsTheBinomialTail) {
  EXPECT_DOUBLE_EQ(mcnemar_exact(0, 5).p_two_sided, 2.0 / 32);
  EXPECT_DOUBLE_EQ(mcnemar_exact(0, 5).p_less, 1.0 / 32);
  EXPECT_DOUBLE_EQ(mcnemar_exact(5, 0).p_less, 1);
  EXPECT_DOUBLE_EQ(mcnemar_exact(1, 3).p_less, 5.0 / 16);
  EXPECT_DOUBLE_EQ(mcnemar_exact(1, 3).p_two_sided, 10.0 / 16);
}

TEST(McNemar, NeverExceedsOne) { EXPECT_EQ(mcnemar_exact(2, 2).p_two_sided, 1); }

TEST(McNemar, WithoutChangesSaysNothing) {
  EXPECT_EQ(mcnemar_exact(0, 0).p_two_sided, 1);
  EXPECT_EQ(mcnemar_exact(0, 0).p_less, 1);
}

constexpr double kZSquared =
    3.841458820694124;  // 95 % quantile of chi-squared, 1 degree of freedom

TEST(Wilson, StaysInsideZeroAndOne) {
  EXPECT_EQ(wilson95(0, 10)->low, 0);
  EXPECT_NEAR(wilson95(0, 10)->high, kZSquared / (10 + kZSquared), 1e-14);
  EXPECT_NEAR(wilson95(10, 10)->low, 10 / (10 + kZSquared), 1e-14);
  EXPECT_EQ(wilson95(10, 10)->high, 1);
}

TEST(Wilson, IsSymmetricAroundAHalf) {
  const Interval interval = wilson95(5, 10).value();
  EXPECT_NEAR(interval.low + interval.high, 1, 1e-15);
  EXPECT_NEAR(interval.high - interval.low, std::sqrt(kZSquared / (10 + kZSquared)), 1e-14);
}

TEST(Wilson, NeedsTrials) { EXPECT_FALSE(wilson95(0, 0)); }

}  // namespace
}  // namespace kvscope
