// Scores of keys: policies.md §9 items 11 and 15 on seeded random keys, zero keys, NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/policies/key_scores.h"
#include "tests/runner/policies/random_values.h"

namespace kvscope::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int kDim = 12;

TEST(KeyScores, Item15KnormIsInvariantToRope) {
  Random random(15);
  const std::size_t n = 200;
  const auto keys = random_values(random, n * kDim, -2.0, 2.0);
  std::vector<float> rotated = keys;
  for (std::size_t pair = 0; pair < rotated.size() / 2; ++pair) {
    const double angle = 6.28 * random.uniform();
    const double x = keys[2 * pair];
    const double y = keys[2 * pair + 1];
    rotated[2 * pair] = static_cast<float>(std::cos(angle) * x - std::sin(angle) * y);
    rotated[2 * pair + 1] = static_cast<float>(std::sin(angle) * x + std::cos(angle) * y);
  }
  const auto before = knorm_scores(keys, kDim);
  const auto after = knorm_scores(rotated, kDim);
  // Twelve rounded components: a few float32 units of a norm below 8.
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(before[i], after[i], 4e-6);
}

TEST(KeyScores, Item15KeyDiffIsInvariantToThePositiveScaleOfAKey) {
  Random random(16);
  const std::size_t n = 200;
  const auto keys = random_values(random, n * kDim, -2.0, 2.0);
  std::vector<float> by_two = keys;
  std::vector<float> by_any = keys;
  for (std::size_t i = 0; i < n; ++i) {
    const float power = std::ldexp(1.0F, random.between(-20, 20));
    const auto scale = static_cast<float>(0.01 + 100.0 * random.uniform());
    for (int j = 0; j < kDim; ++j) {
      by_two[i * kDim + j] *= power;
      by_any[i * kDim + j] *= scale;
    }
  }
  const auto scores = keydiff_scores(keys, kDim);
  EXPECT_EQ(keydiff_scores(by_two, kDim), scores);
  const auto scaled = keydiff_scores(by_any, kDim);
  // Each component of a key and of the mean is rounded anew; cosines of random keys are near zero,
  // and the mean of 200 of them is short (norm 0.07), which enlarges its relative error.
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(scaled[i], scores[i], 2e-6);
}

TEST(KeyScores, Item11KeysInAnotherOrderHaveTheSameScores) {
  Random random(17);
  const std::size_t n = 50;
  const auto keys = random_values(random, n * kDim, -2.0, 2.0);
  std::vector<float> reversed;
  for (std::size_t i = n; i-- > 0;) {
    reversed.insert(reversed.end(), keys.begin() + i * kDim, keys.begin() + (i + 1) * kDim);
  }
  auto scores = keydiff_scores(reversed, kDim);
  std::reverse(scores.begin(), scores.end());
  // The mean is a double sum rounded once, so a component differs by one unit at most.
  const auto expected = keydiff_scores(keys, kDim);
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(scores[i], expected[i], 5e-7);
}

TEST(KeyScores, ZeroKeysAreDefined) {
  const std::vector<float> keys = {0.0F, 0.0F, 3.0F, 4.0F};
  EXPECT_THAT(knorm_scores(keys, 2), ::testing::ElementsAre(0.0F, -5.0F));
  EXPECT_THAT(keydiff_anchor(keys, 2), ::testing::ElementsAre(0.3F, 0.4F));
  EXPECT_EQ(keydiff_scores(keys, 2)[0], 0.0F);
  EXPECT_NEAR(keydiff_scores(keys, 2)[1], -1.0F, 2e-7);  // three float32 roundings
  // Opposed keys cancel: there is no direction to differ from.
  EXPECT_THAT(keydiff_scores(std::vector<float>{1.0F, 0.0F, -1.0F, 0.0F}, 2),
              ::testing::Each(0.0F));
  const auto ratios = value_key_norm_ratios(keys, std::vector<float>{0.0F, 2.0F, 0.0F, 10.0F}, 2);
  EXPECT_FLOAT_EQ(ratios[0], 2e12F);
  EXPECT_EQ(ratios[1], 2.0F);
  EXPECT_EQ(value_key_norm_ratios(std::vector<float>{0.0F}, std::vector<float>{0.0F}, 1)[0], 0.0F);
}

TEST(KeyScores, NaNKeysGiveNaNScores) {
  const std::vector<float> keys = {kNaN, 0.0F, 3.0F, 4.0F};
  EXPECT_TRUE(std::isnan(knorm_scores(keys, 2)[0]));
  EXPECT_TRUE(std::isnan(keydiff_scores(keys, 2)[0]));
  EXPECT_TRUE(std::isnan(value_key_norm_ratios(keys, keys, 2)[0]));
}

}  // namespace
}  // namespace kvscope::testing
