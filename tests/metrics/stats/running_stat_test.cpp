#include "metrics/stats/running_stat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvscope {
namespace {

RunningStat stat_of(std::initializer_list<double> values) {
  RunningStat stat;
  for (const double value : values) stat.add(value);
  return stat;
}

TEST(RunningStat, KeepsMeanSpreadAndRange) {
  const RunningStat stat = stat_of({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(stat.n, 8);
  EXPECT_DOUBLE_EQ(stat.mean, 5);
  EXPECT_DOUBLE_EQ(stat.m2, 32);
  EXPECT_EQ(stat.min, 2);
  EXPECT_EQ(stat.max, 9);
  EXPECT_DOUBLE_EQ(*stat.variance(), 32.0 / 7);
  EXPECT_DOUBLE_EQ(*stat.standard_error(), std::sqrt(32.0 / 7 / 8));
}

TEST(RunningStat, MergedPartsEqualTheWhole) {
  RunningStat merged = stat_of({2, 4, 4});
  merged.merge(stat_of({4, 5, 5, 7, 9}));
  EXPECT_EQ(merged.n, 8);
  EXPECT_DOUBLE_EQ(merged.mean, 5);
  EXPECT_DOUBLE_EQ(merged.m2, 32);
  EXPECT_EQ(merged.min, 2);
  EXPECT_EQ(merged.max, 9);
}

TEST(RunningStat, MergingNothingChangesNothing) {
  const RunningStat stat = stat_of({-3, -1});
  RunningStat left = stat;
  left.merge(RunningStat{});
  EXPECT_EQ(left, stat);
  RunningStat right;
  right.merge(stat);
  EXPECT_EQ(right, stat);
}

TEST(RunningStat, CountsNonfiniteValuesApart) {
  RunningStat stat = stat_of({1, std::nan(""), 3, std::numeric_limits<double>::infinity()});
  EXPECT_EQ(stat.n, 2);
  EXPECT_EQ(stat.mean, 2);
  EXPECT_EQ(stat.nonfinite, 2);
  RunningStat only_nan = stat_of({std::nan("")});
  only_nan.merge(stat);
  EXPECT_EQ(only_nan.nonfinite, 3);
  EXPECT_EQ(only_nan.mean, 2);
}

TEST(RunningStat, HasNoSpreadBelowTwoValues) {
  EXPECT_EQ(RunningStat{}.variance(), std::nullopt);
  EXPECT_EQ(stat_of({4}).standard_error(), std::nullopt);
}

TEST(RunningStat, KeepsTheSpreadOfValuesFarFromZero) {
  const RunningStat stat = stat_of({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16});
  EXPECT_DOUBLE_EQ(*stat.variance(), 30);  // a sum of squares would lose it
}

}  // namespace
}  // namespace kvscope
