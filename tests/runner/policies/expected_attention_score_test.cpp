// Expected Attention against the formula written with whole matrices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runner/policies/expected_attention_score.h"
#include "tests/runner/policies/random_values.h"

namespace kvscope::testing {
namespace {

// The formula with whole matrices and no symmetry.
std::vector<double> plain_expected_attention(const ExpectedAttentionOptions& options,
                                             std::span<const float> inverse_frequency,
                                             const std::vector<float>& queries,
                                             const std::vector<float>& keys,
                                             const std::vector<float>& values, int group, int n,
                                             int d) {
  std::vector<std::vector<double>> rotation(d, std::vector<double>(d, 0.0));
  for (int pair = 0; pair < d / 2; ++pair) {
    for (int p = n; p < n + options.horizon; ++p) {
      const float angle = static_cast<float>(p) * inverse_frequency[pair];
      const double c = std::cos(double{angle}) / options.horizon;
      const double s = std::sin(double{angle}) / options.horizon;
      rotation[2 * pair][2 * pair] += c;
      rotation[2 * pair][2 * pair + 1] -= s;
      rotation[2 * pair + 1][2 * pair] += s;
      rotation[2 * pair + 1][2 * pair + 1] += c;
    }
  }
  const int sinks = options.n_sink;
  std::vector<double> scores(n - sinks, 0.0);
  for (int h = 0; h < group; ++h) {
    const float* q = queries.data() + static_cast<std::size_t>(h) * n * d;
    std::vector<double> mean(d, 0.0);
    for (int r = sinks; r < n; ++r) {
      for (int j = 0; j < d; ++j) mean[j] += q[r * d + j] / double(n - sinks);
    }
    std::vector<double> logits(n - sinks, 0.0);
    double total = 0.0;
    for (int i = sinks; i < n; ++i) {
      const float* k = keys.data() + i * d;
      // k·(R x) for the mean, and for each centred query: kᵀ R S Rᵀ k is the mean of its square.
      const auto project = [&](const std::vector<double>& x) {
        double sum = 0.0;
        for (int a = 0; a < d; ++a) {
          for (int b = 0; b < d; ++b) sum += k[a] * rotation[a][b] * x[b];
        }
        return sum;
      };
      double z = project(mean) / std::sqrt(double(d));
      for (int r = sinks; r < n && options.use_covariance; ++r) {
        std::vector<double> centred(d);
        for (int j = 0; j < d; ++j) centred[j] = q[r * d + j] - mean[j];
        const double along = project(centred);
        z += along * along / (n - sinks) / (2.0 * d);
      }
      logits[i - sinks] = z;
      total += std::exp(z);
    }
    for (int i = 0; i < n - sinks; ++i) scores[i] += std::exp(logits[i]) / total / group;
  }
  for (int i = 0; i < n - sinks && options.use_value_norm; ++i) {
    double square = 0.0;
    for (int j = 0; j < d; ++j) square += std::pow(values[(i + sinks) * d + j], 2);
    scores[i] = (scores[i] + options.epsilon) * std::sqrt(square);
  }
  return scores;
}

TEST(ExpectedAttention, EqualsTheFormulaWithWholeMatrices) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed << 20);
    const int d = 2 * random.between(1, 6);
    const int group = random.between(1, 3);
    const int n = random.between(3, 21);  // not a multiple of the block
    const ExpectedAttentionOptions options{.n_sink = random.between(0, 2),
                                           .horizon = random.between(1, 9),
                                           .use_covariance = seed % 3 != 0,
                                           .use_value_norm = seed % 4 != 0,
                                           .epsilon = 0.02F};
    const auto queries = random_values(random, static_cast<std::size_t>(group) * n * d, -2.0, 2.0);
    const auto keys = random_values(random, static_cast<std::size_t>(n) * d, -2.0, 2.0);
    const auto values = random_values(random, static_cast<std::size_t>(n) * d, -2.0, 2.0);
    const auto frequencies = random_values(random, d / 2, 0.0, 1.0);
    const auto scores = expected_attention_scores(
        options, mean_rotation(frequencies, n, options.horizon), queries, group, keys, values, d);
    const auto expected =
        plain_expected_attention(options, frequencies, queries, keys, values, group, n, d);
    double largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // One float32 norm and one rounding of a double.
      EXPECT_NEAR(scores[options.n_sink + i], expected[i], 5e-7 * std::max(1.0, expected[i]));
      largest = std::max(largest, expected[i]);
    }
    for (int i = 0; i < options.n_sink; ++i)
      EXPECT_NEAR(scores[i], largest + 1.0, 1e-6 * (1 + largest));
  }
}

TEST(ExpectedAttention, MeanRotationUsesFloat32Angles) {
  const float frequency = 0.7498942F;
  const int position = 8191;
  const MeanRotation rotation = mean_rotation(std::vector<float>{frequency, 0.0F}, position, 1);
  const float angle = 8191.0F * frequency;
  EXPECT_EQ(rotation.cos[0], std::cos(double{angle}));
  EXPECT_EQ(rotation.sin[0], std::sin(double{angle}));
  // A pair that is not rotated.
  EXPECT_EQ(rotation.cos[1], 1.0);
  EXPECT_EQ(rotation.sin[1], 0.0);
}

TEST(ExpectedAttention, APromptOfSinksKeepsThemAll) {
  const std::vector<float> rows(6, 1.0F);
  EXPECT_THAT(expected_attention_scores({.n_sink = 4}, {{1.0}, {0.0}}, rows, 1, rows, rows, 2),
              ::testing::ElementsAre(1.0F, 1.0F, 1.0F));
}

}  // namespace
}  // namespace kvscope::testing
