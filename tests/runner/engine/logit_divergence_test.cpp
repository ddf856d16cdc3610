#include "runner/engine/logit_divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace kvscope {
namespace {

double exact_lse(const std::vector<float>& logits) {
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  return double(std::log(sum));
}

LogitComparison compare(const std::vector<float>& full, const std::vector<float>& arm) {
  return compare_logits(full, exact_lse(full), arm, exact_lse(arm));
}

TEST(LogitDivergence, MeetsTheHandComputedValue) {
  const std::vector<float> full = {2, 1, 0, -1};
  const std::vector<float> arm = {1.5F, 1.6F, 0, -1};
  // 1.6 is not a float: the tolerance is its rounding, 2.4e-8.
  EXPECT_NEAR(compare(full, arm).kl_full_to_arm_nats, 0.11942467306333197, 5e-8);
  EXPECT_NEAR(compare(arm, full).kl_full_to_arm_nats, 0.12806933297712594, 5e-8);
  EXPECT_FALSE(compare(full, arm).top1_agrees);
}

TEST(LogitDivergence, OfEqualBitsIsExactlyZero) {
  std::mt19937 random(7);
  std::normal_distribution<float> logit(0, 5);
  std::vector<float> full(49152);
  for (float& value : full) value = logit(random);
  const LogitComparison same = compare(full, full);
  EXPECT_EQ(same.kl_full_to_arm_nats, 0);
  EXPECT_TRUE(same.top1_agrees);
}

TEST(LogitDivergence, SmallerIdWinsATie) {
  EXPECT_TRUE(compare({0, 3, 3}, {0, 3, 1}).top1_agrees);
  EXPECT_FALSE(compare({0, 3, 3}, {0, 1, 3}).top1_agrees);
}

TEST(LogitDivergence, IgnoresAShiftOfAllLogits) {
  const LogitComparison shifted = compare({5, 3, 1}, {-95, -97, -99});
  EXPECT_NEAR(shifted.kl_full_to_arm_nats, 0, 1e-14);  // 100 + lse rounded to double
  EXPECT_TRUE(shifted.top1_agrees);
}

TEST(LogitDivergence, TellsOfLogitsThatAreNotNumbers) {
  EXPECT_FALSE(std::isfinite(
      compare_logits(std::vector<float>{1, std::nanf("")}, 1, std::vector<float>{1, 2}, 1)
          .kl_full_to_arm_nats));
}

// 4e-8 · sqrt(KL) measured, see logit_divergence.h.
TEST(LogitDivergence, IsAccurateFromTinyToLargeDivergences) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 1);
  for (const float noise : {1e-4F, 1e-2F, 0.3F, 3.0F}) {
    std::vector<float> full(49152);
    std::vector<float> arm(full.size());
    for (std::size_t i = 0; i < full.size(); ++i) {
      full[i] = 3 * normal(random);
      arm[i] = full[i] + noise * normal(random);
    }
    const long double full_lse = exact_lse(full);
    const long double arm_lse = exact_lse(arm);
    long double kl = 0;
    for (std::size_t i = 0; i < full.size(); ++i) {
      const long double log_p = static_cast<long double>(full[i]) - full_lse;
      kl += std::exp(log_p) * (log_p - (static_cast<long double>(arm[i]) - arm_lse));
    }
    const LogitComparison got = compare_logits(full, double(full_lse), arm, double(arm_lse));
    EXPECT_NEAR(got.kl_full_to_arm_nats, double(kl), 1e-7 * std::sqrt(double(kl))) << noise;
  }
}

}  // namespace
}  // namespace kvscope
