// Ada-KV's selection: policies.md §9 item 7 on seeded random inputs, the rule as one sort, NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "runner/policies/head_budgets.h"
#include "runner/policies/top_k.h"
#include "tests/runner/policies/random_values.h"

namespace kvscope::testing {
namespace {

constexpr int kCases = 500;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct HeadCase {
  int heads;
  int prefix;
  int base;
  double alpha;
  std::vector<float> scores;  // [heads][prefix]
};

HeadCase random_heads(std::uint64_t seed) {
  Random random(seed << 20);
  HeadCase result{.heads = random.between(1, 5),
                  .prefix = random.between(1, 30),
                  .base = random.between(0, 30),
                  .alpha = random.between(0, 10) / 10.0,
                  .scores = {}};
  const std::size_t n = static_cast<std::size_t>(result.heads) * result.prefix;
  result.scores = seed % 2 == 0 ? coarse_values(random, n) : random_values(random, n, 0.0, 1.0);
  return result;
}

// Total score kept, exact for coarse scores and to 1e-12 otherwise (doubles, ≤ 150 terms below 1).
double retained(const HeadCase& c, const std::vector<std::vector<std::int32_t>>& kept) {
  double sum = 0.0;
  for (int head = 0; head < c.heads; ++head) {
    for (const std::int32_t i : kept[head]) sum += c.scores[head * c.prefix + i];
  }
  return sum;
}

std::vector<std::vector<std::int32_t>> uniform_top(const HeadCase& c, int k) {
  std::vector<std::vector<std::int32_t>> kept;
  for (int head = 0; head < c.heads; ++head) {
    std::vector<Candidate<float>> candidates;
    for (int i = 0; i < c.prefix; ++i) {
      candidates.push_back({c.scores[head * c.prefix + i], i, i});
    }
    kept.push_back(top_k(candidates, k).slots);
  }
  return kept;
}

TEST(AdaKv, Item7ExactTotalFloorAndAtLeastTheUniformScore) {
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const HeadCase c = random_heads(seed);
    const auto kept = adakv_selection({.alpha = c.alpha}, c.scores, c.heads, c.base).kept;
    const int base = std::min(c.base, c.prefix);
    const auto floor = static_cast<std::size_t>(c.alpha * base + 1e-9);
    std::size_t total = 0;
    for (const auto& head : kept) {
      total += head.size();
      EXPECT_GE(head.size(), floor);
      EXPECT_TRUE(std::is_sorted(head.begin(), head.end()));
      EXPECT_EQ(std::adjacent_find(head.begin(), head.end()), head.end());
    }
    EXPECT_EQ(total, static_cast<std::size_t>(c.heads) * base);
    const auto uniform = uniform_top(c, base);
    EXPECT_GE(retained(c, kept), retained(c, uniform) - 1e-12);
    EXPECT_EQ(adakv_selection({.alpha = 1.0}, c.scores, c.heads, c.base).kept, uniform);
  }
}

// The rule as one sorted list: each head's floor first, then everything else of all heads.
TEST(AdaKv, EqualsASortOfAllThatTheFloorsLeave) {
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const HeadCase c = random_heads(seed);
    const int base = std::min(c.base, c.prefix);
    const int floor = static_cast<int>(c.alpha * base + 1e-9);
    auto expected = uniform_top(c, floor);
    std::vector<std::tuple<float, int, int>> rest;  // sorts by -score, -position, head
    for (int head = 0; head < c.heads; ++head) {
      for (int i = 0; i < c.prefix; ++i) {
        if (!std::binary_search(expected[head].begin(), expected[head].end(), i)) {
          rest.emplace_back(-c.scores[head * c.prefix + i], -i, head);
        }
      }
    }
    std::sort(rest.begin(), rest.end());
    for (int i = 0; i < c.heads * (base - floor); ++i) {
      expected[std::get<2>(rest[i])].push_back(-std::get<1>(rest[i]));
    }
    for (auto& head : expected) std::sort(head.begin(), head.end());
    EXPECT_EQ(adakv_selection({.alpha = c.alpha}, c.scores, c.heads, c.base).kept, expected);
  }
}

TEST(AdaKv, NaNsComeLastAndAreCountedOnce) {
  const std::vector<float> scores = {kNaN, 0.1F, 0.2F, /*head 1*/ 0.3F, kNaN, kNaN};
  for (const bool normalize : {false, true}) {
    const auto selection = adakv_selection({.alpha = 0.5, .normalize = normalize}, scores, 2, 2);
    EXPECT_EQ(selection.nan_scores, 3);
    // Four places for three numbers: the last goes to the newest NaN.
    EXPECT_THAT(selection.kept[0], ::testing::ElementsAre(1, 2));
    EXPECT_THAT(selection.kept[1], ::testing::ElementsAre(0, 2));
  }
}

TEST(AdaKv, NormalizeWeighsAHeadByItsConcentration) {
  // Head 1 spreads its mass: its best two hold half of it, so its 0.5 counts as 0.25.
  const std::vector<float> scores = {0.75F, 0.375F, 0.0F, 0.0F, /*head 1*/ 0.5F, 0.5F, 0.5F, 0.5F};
  const auto plain = adakv_selection({.alpha = 0.0}, scores, 2, 2).kept;
  EXPECT_THAT(plain[0], ::testing::ElementsAre(0));
  EXPECT_THAT(plain[1], ::testing::ElementsAre(1, 2, 3));
  const auto weighed = adakv_selection({.alpha = 0.0, .normalize = true}, scores, 2, 2).kept;
  EXPECT_THAT(weighed[0], ::testing::ElementsAre(0, 1));
  EXPECT_THAT(weighed[1], ::testing::ElementsAre(2, 3));
}

TEST(AdaKv, AHeadOfZerosAndADecimalShareAreExact) {
  EXPECT_EQ(adakv_selection({.normalize = true}, std::vector<float>(6, 0.0F), 2, 2).kept.size(),
            2U);
  // floor(0.29 * 100) is 29; head 1 gets no more than its floor.
  std::vector<float> scores(400, 1.0F);
  std::fill(scores.begin() + 200, scores.end(), 0.0F);
  EXPECT_EQ(adakv_selection({.alpha = 0.29}, scores, 2, 100).kept[1].size(), 29U);
}

}  // namespace
}  // namespace kvscope::testing
