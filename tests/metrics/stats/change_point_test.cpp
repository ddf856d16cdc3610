#include "metrics/stats/change_point.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace kvscope {
namespace {

TEST(ChangePoint, FindsWhereTheLevelFell) {
  const std::vector<double> series = {1.0, 1.1, 0.9, 1.0, 1.05, 0.4, 0.5, 0.45, 0.5};
  const auto change = find_change(series, 999, 1);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->first_after, 5U);
  EXPECT_NEAR(change->before, 1.01, 1e-12);
  EXPECT_NEAR(change->after, 0.4625, 1e-12);
  EXPECT_LT(change->p, 0.05);
}

TEST(ChangePoint, ASeriesWithoutOneHasALargeP) {
  const std::vector<double> series = {1, 2, 1, 2, 1, 2, 1, 2};
  const auto change = find_change(series, 999, 1);
  ASSERT_TRUE(change);
  EXPECT_GT(change->p, 0.5);
}

TEST(ChangePoint, NothingToFind) {
  EXPECT_FALSE(find_change(std::vector<double>{1, 2, 3, 4, 5}, 99, 1));
  EXPECT_FALSE(find_change(std::vector<double>(8, 0.25), 99, 1));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(find_change(std::vector<double>{1, 2, nan, 4, 5, 6}, 99, 1));
}

}  // namespace
}  // namespace kvscope
