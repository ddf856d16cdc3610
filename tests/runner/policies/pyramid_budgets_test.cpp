// PyramidKV's budgets: policies.md §9 item 8 on seeded random inputs, and the limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runner/policies/pyramid_budgets.h"
#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

constexpr int kCases = 500;

int sum_of(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), 0);
}

TEST(Pyramid, Item8ExactTotalNonIncreasingAndInRange) {
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    Random random(seed << 20);
    for (const int layers : {2, 4, 32}) {
      const int prompt_tokens = random.between(1, 400);
      const int budget = random.between(1, 400);
      const int window = random.between(0, std::min(budget, prompt_tokens));
      const double beta = 1.0 + 30.0 * random.uniform();
      SCOPED_TRACE("seed " + std::to_string(seed) + " layers " + std::to_string(layers));
      const auto budgets = pyramid_budgets(layers, budget, window, prompt_tokens, beta);
      EXPECT_EQ(sum_of(budgets), layers * std::min(budget, prompt_tokens));
      EXPECT_TRUE(std::is_sorted(budgets.rbegin(), budgets.rend()));
      EXPECT_GE(budgets.back(), std::min(window, prompt_tokens));
      EXPECT_LE(budgets.front(), prompt_tokens);
    }
  }
}

TEST(Pyramid, OneLayerAndBetaOneAtTheirLimits) {
  EXPECT_THAT(pyramid_budgets(1, 40, 8, 200, 20.0), ::testing::ElementsAre(40));
  EXPECT_THAT(pyramid_budgets_kvpress(1, 40.0, 8, 200, 20.0), ::testing::ElementsAre(40));
  // beta = 1: hi = lo = b.
  EXPECT_THAT(pyramid_budgets(3, 40, 8, 200, 1.0), ::testing::ElementsAre(40, 40, 40));
}

TEST(Pyramid, KvpressRoundsHalfToEvenAndKeepsARealBudget) {
  // hi = 12, lo = 9: 12, 10.5, 9.
  EXPECT_THAT(pyramid_budgets_kvpress(3, 10.5, 1, 13, 20.0), ::testing::ElementsAre(12, 10, 9));
  // 0.2 of 700 as a double is just below 140, and does not become 139.
  EXPECT_THAT(pyramid_budgets_kvpress(2, 700 * (1.0 - 0.8), 32, 700, 20.0),
              ::testing::ElementsAre(140, 140));
}

}  // namespace
}  // namespace kvscope::testing
