#include "runner/base/exp_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvscope {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ExpWeights, ExpIsWithinTwoRoundingsOfTheTruth) {
  constexpr int kPoints = 1 << 16;
  std::vector<float> x(kPoints);
  for (int i = 0; i < kPoints; ++i) x[std::size_t(i)] = -87.0F * float(i) / kPoints;
  std::vector<float> out(x.size());
  exp_below(x, 0, out);
  EXPECT_EQ(out[0], 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double truth = std::exp(static_cast<long double>(x[i]));
    ASSERT_LE(std::abs(out[i] - truth) / truth, 1.2e-7L) << x[i];  // 8.7e-8 measured
  }
}

TEST(ExpWeights, FarBelowTheLargestWeighsNothing) {
  const std::vector<float> logits = {0, -89, -1e30F, -kInfinity};
  std::vector<float> weights(4);
  EXPECT_EQ(exp_weights(logits, weights).sum, 1);
  EXPECT_EQ(weights, (std::vector<float>{1, 0, 0, 0}));
}

TEST(ExpWeights, OfNothingHasLseMinusInfinity) {
  EXPECT_EQ(exp_weights({}, {}).lse(), -double(kInfinity));
}

TEST(ExpWeights, DoesNotHideWhatIsNotANumber) {
  std::vector<float> weights(20);
  for (const float bad : {std::nanf(""), kInfinity}) {
    for (const std::size_t at : {std::size_t(0), std::size_t(5), std::size_t(19)}) {
      std::vector<float> logits(20, 1.0F);
      logits[at] = bad;
      EXPECT_FALSE(std::isfinite(exp_weights(logits, weights).sum)) << bad << " at " << at;
    }
  }
}

TEST(ExpWeights, FindsTheLargestInAnyPlace) {
  for (std::size_t at = 0; at < 37; ++at) {
    std::vector<float> values(37, -5.0F);
    values[at] = -4.0F;
    EXPECT_EQ(largest(values), -4.0F);
  }
}

}  // namespace
}  // namespace kvscope
