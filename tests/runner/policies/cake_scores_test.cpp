// CAKE: policies.md §9 item 9 on seeded random inputs, streaming against stored rows, the guards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runner/policies/cake_scores.h"
#include "runner/policies/top_k.h"
#include "tests/runner/policies/random_values.h"

namespace kvscope::testing {
namespace {

constexpr int kCases = 500;

int sum_of(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), 0);
}

TEST(Cake, Item9BudgetsSumAndRespectTheClamp) {
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed << 20);
    const int layers = random.between(1, 12);
    const int window = random.between(1, 6);
    const int budget = window + random.between(0, 20);
    const int prompt_tokens = window + random.between(1, 40);
    std::vector<double> preferences(layers);
    for (double& value : preferences) {
      value = random.between(0, 3) == 0 ? 0.0 : std::pow(10.0, -6.0 * random.uniform());
    }
    const auto budgets = cake_prefix_budgets(preferences, layers, budget, window, prompt_tokens);
    EXPECT_EQ(sum_of(budgets),
              std::min((budget - window) * layers, (prompt_tokens - window) * layers));
    EXPECT_LE(*std::max_element(budgets.begin(), budgets.end()), prompt_tokens - window);

    // Equal preferences, and none at all.
    const int each = std::min(budget, prompt_tokens) - window;
    for (const double same : {0.0, 0.1, 1e-9}) {
      const std::vector<double> equal(layers, same);
      EXPECT_EQ(cake_prefix_budgets(equal, layers, budget, window, prompt_tokens),
                std::vector<int>(layers, each));
    }
  }
}

TEST(Cake, Item9TheCascadeIsInsideTheOneShotResult) {
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed << 20);
    const int layers = random.between(1, 8);
    const int window = 2;
    const int budget = window + random.between(0, 8);
    const int prefix = random.between(1, 20);
    std::vector<double> preferences;
    std::vector<std::vector<float>> indicators;
    std::vector<std::vector<std::int32_t>> cascade;
    const auto cut = [&](std::size_t layer, const std::vector<std::int32_t>& from, int k) {
      std::vector<Candidate<float>> left;
      for (const std::int32_t i : from) left.push_back({indicators[layer][i], i, i});
      return top_k(left, k).slots;
    };
    std::vector<std::int32_t> everything(prefix);
    std::iota(everything.begin(), everything.end(), 0);
    std::vector<int> budgets;
    for (int seen = 1; seen <= layers; ++seen) {
      preferences.push_back(std::pow(10.0, -4.0 * random.uniform()));
      indicators.push_back(coarse_values(random, prefix));
      cascade.push_back(everything);
      budgets = cake_prefix_budgets(preferences, layers, budget, window, prefix + window);
      for (int layer = 0; layer < seen; ++layer) {
        cascade[layer] = cut(layer, cascade[layer], budgets[layer]);
      }
    }
    for (int layer = 0; layer < layers; ++layer) {
      const auto one_shot = cut(layer, everything, budgets[layer]);
      EXPECT_TRUE(std::includes(one_shot.begin(), one_shot.end(), cascade[layer].begin(),
                                cascade[layer].end()));
      EXPECT_LE(one_shot.size() - cascade[layer].size(), 1U);
    }
  }
}

// Two passes over stored rows, in double.
TEST(Cake, StreamedStatisticsEqualTwoPassesOverStoredRows) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed << 20);
    const int heads = random.between(1, 4);
    const int rows = random.between(2, 9);
    const int prefix = random.between(1, 40);
    std::vector<std::vector<std::vector<float>>> a(heads);  // [heads][rows][prefix]
    for (auto& head : a) {
      for (int j = 0; j < rows; ++j) head.push_back(random_values(random, prefix, 0.0, 0.1));
    }
    CakeWindow window(heads, prefix);
    for (int j = 0; j < rows; ++j) {
      for (int h = 0; h < heads; ++h) window.add_row(h, a[h][j]);
    }
    double entropy = 0.0;
    double variance = 0.0;
    std::vector<double> indicator(prefix, 0.0);
    for (const auto& head : a) {
      std::vector<double> plain(prefix);
      for (int i = 0; i < prefix; ++i) {
        double mean = 0.0;
        for (const auto& row : head) mean += row[i] / static_cast<double>(rows);
        double squares = 0.0;
        for (const auto& row : head) {
          squares += (row[i] - mean) * (row[i] - mean);
          if (row[i] > 0.0F) entropy -= row[i] * std::log(row[i] + 1e-10);
        }
        variance += squares / (rows - 1);
        plain[i] = mean + 200.0 * squares / (rows - 1);
      }
      for (int i = 0; i < prefix; ++i) {
        for (int j = std::max(0, i - 2); j <= std::min(prefix - 1, i + 2); ++j) {
          indicator[i] += plain[j] / 5.0 / heads;
        }
      }
    }
    // Both sides are double sums of ≤ 1500 terms below 1.
    EXPECT_NEAR(window.entropy_nats(), entropy, 1e-10);
    EXPECT_NEAR(window.variance(), variance, 1e-12);
    const auto scores = window.indicator({});
    // Float32 pooling of values below 1.
    for (int i = 0; i < prefix; ++i) EXPECT_NEAR(scores[i], indicator[i], 1e-6);
  }
}

TEST(Cake, EqualRowsHaveNoVarianceAndASingleRowToo) {
  Random random(7);
  const auto row = random_values(random, 64, 0.0, 1.0);
  CakeWindow window(1, 64);
  window.add_row(0, row);
  EXPECT_EQ(window.variance(), 0.0);
  for (int j = 0; j < 30; ++j) window.add_row(0, row);
  EXPECT_EQ(window.variance(), 0.0);
  EXPECT_EQ(cake_preference({}, window.entropy_nats(), window.variance()), 0.0);
}

TEST(Cake, CertaintyHasNoEntropyAndNaNNoPreference) {
  CakeWindow window(1, 3);
  window.add_row(0, std::vector<float>{1.0F, 0.0F, 0.0F});
  EXPECT_EQ(window.entropy_nats(), 0.0);
  EXPECT_EQ(cake_preference({.tau1 = 1.6}, window.entropy_nats(), 0.1), 0.0);
  EXPECT_THAT(
      cake_prefix_budgets(std::vector<double>{std::numeric_limits<double>::quiet_NaN(), 1.0, 1.0},
                          3, 4, 1, 100),
      ::testing::ElementsAre(0, 5, 4));
}

TEST(Cake, TheTemperaturesAreExponents) {
  EXPECT_DOUBLE_EQ(cake_preference({.tau1 = 0.5, .tau2 = 2.0}, 3.0, 16.0), 36.0);
}

TEST(Cake, DecodeScoresAreTheMeanOfPooledHeadsAndLeaveTheWindowOut) {
  const std::vector<float> rows = {0.5F,  0.25F, 0.125F, 0.125F, /*head 1*/ 0.0F,
                                   0.25F, 0.5F,  0.25F};
  const std::vector<std::int32_t> positions = {3, 8, 9, 12};
  const auto scores = cake_decode_scores({.kernel = 1}, rows, positions, 2, 1);
  EXPECT_THAT(scores, ::testing::ElementsAre(0.25F, 0.25F, 0.3125F, 0.0F));
  EXPECT_THAT(cake_decode_scores({}, rows, positions, 2, 4), ::testing::Each(0.0F));
}

}  // namespace
}  // namespace kvscope::testing
