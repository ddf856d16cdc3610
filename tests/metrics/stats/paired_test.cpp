#include "metrics/stats/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace kvscope {
namespace {

TEST(PairedT, OfSingletonClustersIsThePlainPairedT) {
  const std::vector<Pair> pairs = {{"x", 0, 1}, {"y", 0, 2}, {"z", 0, 3}};
  const PairedT result = paired_t(pairs, 0.0);
  EXPECT_EQ(result.n, 3);
  EXPECT_EQ(result.clusters, 3);
  EXPECT_FALSE(result.identical);
  EXPECT_DOUBLE_EQ(*result.mean_difference, 2);
  EXPECT_DOUBLE_EQ(*result.se_unclustered_paired, std::sqrt(1.0 / 3));
  const PairedInference& inference = result.inference.value();
  EXPECT_EQ(inference.df, 2);
  EXPECT_DOUBLE_EQ(inference.se_clustered, std::sqrt(1.0 / 3));
  EXPECT_DOUBLE_EQ(*inference.t, std::sqrt(12.0));
  // With 2 degrees of freedom P(|T| > t) = 1 - t / sqrt(2 + t^2).
  const double p = 1 - std::sqrt(12.0 / 14);
  EXPECT_NEAR(inference.p_two_sided, p, 1e-15);
  EXPECT_NEAR(inference.p_greater, p / 2, 1e-15);
  EXPECT_NEAR(inference.p_less, 1 - p / 2, 1e-15);
  EXPECT_NEAR(*inference.p_noninferior, p / 2, 1e-15);
  // Quantiles with 2 degrees of freedom: (2q - 1) sqrt(2 / (1 - (2q - 1)^2)).
  const double two_sided = 0.95 * std::sqrt(2 / (1 - 0.95 * 0.95)) / std::sqrt(3.0);
  const double one_sided = 0.9 * std::sqrt(2 / (1 - 0.9 * 0.9)) / std::sqrt(3.0);
  EXPECT_NEAR(inference.ci95.low, 2 - two_sided, 1e-14);
  EXPECT_NEAR(inference.ci95.high, 2 + two_sided, 1e-14);
  EXPECT_NEAR(inference.lower_one_sided_95, 2 - one_sided, 1e-14);
  EXPECT_NEAR(inference.upper_one_sided_95, 2 + one_sided, 1e-14);
}

TEST(PairedT, TakesAClusterAsOneObservation) {
  const std::vector<Pair> pairs = {{"x", 0, 1}, {"y", 1, 4}, {"x", 2, 3}};  // d = 1, 3, 1
  const PairedT result = paired_t(pairs, std::nullopt);
  EXPECT_EQ(result.clusters, 2);
  EXPECT_DOUBLE_EQ(*result.mean_difference, 5.0 / 3);
  const PairedInference& inference = result.inference.value();
  EXPECT_DOUBLE_EQ(inference.se_clustered, 8.0 / 9);  // residual sums -4/3 and 4/3
  EXPECT_DOUBLE_EQ(*inference.t, 1.875);
  EXPECT_NEAR(inference.p_less, 0.5 + std::atan(1.875) / std::numbers::pi, 1e-15);
  EXPECT_EQ(inference.p_noninferior, std::nullopt);
}

TEST(PairedT, WithoutPairsSaysNothing) {
  const PairedT result = paired_t({}, 0.1);
  EXPECT_EQ(result.n, 0);
  EXPECT_FALSE(result.identical);
  EXPECT_FALSE(result.mean_difference || result.inference || result.se_unclustered_paired);
}

TEST(PairedT, OfOneClusterHasAMeanOnly) {
  const PairedT one_pair = paired_t(std::vector<Pair>{{"x", 1, 3}}, 0.1);
  EXPECT_EQ(one_pair.mean_difference, 2);
  EXPECT_FALSE(one_pair.inference || one_pair.se_unclustered_paired);
  const PairedT two_pairs = paired_t(std::vector<Pair>{{"x", 1, 3}, {"x", 1, 5}}, 0.1);
  EXPECT_EQ(two_pairs.mean_difference, 3);
  EXPECT_EQ(two_pairs.se_unclustered_paired, 1);
  EXPECT_FALSE(two_pairs.inference);
}

TEST(PairedT, OfIdenticalArmsIsCertain) {
  const std::vector<Pair> pairs = {{"x", 0.1, 0.1}, {"y", 7, 7}, {"y", -2, -2}};
  const PairedT result = paired_t(pairs, 0.05);
  EXPECT_TRUE(result.identical);
  const PairedInference& inference = result.inference.value();
  EXPECT_EQ(inference.t, std::nullopt);
  EXPECT_EQ(inference.se_clustered, 0);
  EXPECT_EQ(inference.p_two_sided, 1);
  EXPECT_EQ(inference.p_less, 1);
  EXPECT_EQ(inference.p_greater, 1);
  EXPECT_EQ(inference.p_noninferior, 0);
  EXPECT_EQ(inference.ci95.low, 0);
  EXPECT_EQ(inference.ci95.high, 0);
  EXPECT_EQ(paired_t(pairs, 0.0).inference->p_noninferior, 1);
}

TEST(PairedT, OfAConstantDifferenceIsTheLimitOfLargeT) {
  const std::vector<Pair> pairs = {{"x", 1, 0.5}, {"y", 2, 1.5}};
  const PairedT result = paired_t(pairs, 0.25);
  EXPECT_FALSE(result.identical);
  const PairedInference& inference = result.inference.value();
  EXPECT_EQ(inference.t, std::nullopt);
  EXPECT_EQ(inference.p_two_sided, 0);
  EXPECT_EQ(inference.p_less, 0);
  EXPECT_EQ(inference.p_greater, 1);
  EXPECT_EQ(inference.p_noninferior, 1);
  EXPECT_EQ(inference.lower_one_sided_95, -0.5);
}

TEST(MinimumDetectableEffect, IsTheSumOfTwoNormalQuantiles) {
  EXPECT_NEAR(minimum_detectable_effect(1), 1.6448536269514722 + 0.8416212335729143, 1e-14);
  EXPECT_EQ(minimum_detectable_effect(0), 0);
}

}  // namespace
}  // namespace kvscope
