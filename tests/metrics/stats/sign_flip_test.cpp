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

TEST(SignFlip, RandomFlipsAgreeWithAllOfThem) {
  const std::vector<double> sums = {-0.4, 0.1, -0.7, -0.2, 0.05, -0.3, -0.6, 0.2, -0.1, -0.5};
  const auto exact = sign_flip_exact(sums);
  const auto sampled = sign_flip_sampled(sums, 9'999, 7);
  ASSERT_TRUE(exact && sampled);
  // Three standard errors of a share of 9,999 draws.
  EXPECT_NEAR(sampled->p_less, exact->p_less, 3 * 0.5 / 100);
  EXPECT_NEAR(sampled->p_two_sided, exact->p_two_sided, 3 * 0.5 / 100);
  EXPECT_EQ(sign_flip_sampled(sums, 999, 7)->p_less, sign_flip_sampled(sums, 999, 7)->p_less);
  EXPECT_FALSE(sign_flip_sampled({}, 999, 7));
  EXPECT_EQ(sign_flip_sampled(std::vector<double>(25, 0.0), 99, 7)->p_less, 1.0);
}

}  // namespace
}  // namespace kvscope
