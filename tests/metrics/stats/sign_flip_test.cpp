#include "metrics/stats/sign_flip.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvscope {
namespace {

SignFlip flip(std::vector<double> sums) { return sign_flip_exact(sums).value(); }

TEST(SignFlip, CountsTheObservedSumItself) {
  EXPECT_EQ(flip({-1, -2, -3}).p_less, 1.0 / 8);
  EXPECT_EQ(flip({-1, -2, -3}).p_two_sided, 2.0 / 8);
  EXPECT_EQ(flip({1, 2, 3}).p_less, 1);
}

TEST(SignFlip, CountsTies) {
  // Sums of ±1 ±2 ±3: -6 -4 -2 0 0 2 4 6; observed 0.
  EXPECT_EQ(flip({1, 2, -3}).p_less, 5.0 / 8);
  EXPECT_EQ(flip({1, 2, -3}).p_two_sided, 1);
  EXPECT_EQ(flip({0.1, 0.2, -0.3}).p_less, 5.0 / 8);  // 0.1 + 0.2 is not 0.3 in binary
}

TEST(SignFlip, OfNoDifferenceIsOne) {
  EXPECT_EQ(flip({0, 0}).p_less, 1);
  EXPECT_EQ(flip({0, 0}).p_two_sided, 1);
}

TEST(SignFlip, NeedsClustersButNotTooMany) {
  EXPECT_FALSE(sign_flip_exact({}));
  EXPECT_TRUE(sign_flip_exact(std::vector<double>(kMaxSignFlipClusters, -1.0)));
  EXPECT_EQ(flip(std::vector<double>(kMaxSignFlipClusters, -1.0)).p_less, 1.0 / 1048576);
  EXPECT_FALSE(sign_flip_exact(std::vector<double>(kMaxSignFlipClusters + 1, -1.0)));
}

}  // namespace
}  // namespace kvscope
