// Scores of pages and the page that leaves; the item is that of policies.md §9.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "runner/policies/page_scores.h"
#include "tests/runner/policies/random_values.h"

namespace kvscope::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(PageScores, MeanMaxAndSumOfTokensInAnyOrder) {
  const std::vector<float> scores = {1.0F, 4.0F, 3.0F, 2.0F, 6.0F};
  const std::vector<std::int32_t> positions = {7, 2, 6, 3, 9};
  const std::vector<std::int32_t> pages = {0, 2, 0, 2, 3};  // page 1 is free
  const auto mean = page_scores(PageReduction::kMean, scores, positions, pages, 4);
  EXPECT_THAT(mean.score, ::testing::ElementsAre(2.0F, 0.0F, 3.0F, 6.0F));
  EXPECT_THAT(mean.oldest_position, ::testing::ElementsAre(6, -1, 2, 9));
  EXPECT_THAT(page_scores(PageReduction::kMax, scores, positions, pages, 4).score,
              ::testing::ElementsAre(3.0F, 0.0F, 4.0F, 6.0F));
  EXPECT_THAT(page_scores(PageReduction::kSum, scores, positions, pages, 4).score,
              ::testing::ElementsAre(4.0F, 0.0F, 6.0F, 6.0F));
}

TEST(PageScores, TheLowestPageLeavesButNeitherSinksNorTheNewest) {
  // Physical pages in another order than their age; page 1 is empty.
  const PageScores pages{.score = {0.5F, 0.0F, 0.1F, 0.2F, 0.5F},
                         .oldest_position = {8, -1, 0, 16, 4}};
  EXPECT_EQ(page_to_evict(pages, 4), 4);  // a tie with page 0, which is newer
  EXPECT_EQ(page_to_evict(pages, 0), 2);
  EXPECT_EQ(page_to_evict(pages, 9), std::nullopt);
  EXPECT_EQ(page_to_evict({}, 0), std::nullopt);
}

TEST(PageScores, APageWithNaNLeavesFirst) {
  const std::vector<float> scores = {-kInfinity, 1.0F, kNaN, 9.0F};
  const std::vector<std::int32_t> places = {0, 1, 2, 3};
  for (const auto reduction : {PageReduction::kMean, PageReduction::kMax, PageReduction::kSum}) {
    const auto pages = page_scores(reduction, scores, places, std::vector{0, 1, 1, 2}, 3);
    EXPECT_TRUE(std::isnan(pages.score[1]));
    EXPECT_EQ(page_to_evict(pages, 0), 1);
  }
}

TEST(PageScores, Item17PagesOfOneTokenRankAsTokens) {
  Random random(17);
  for (int repeat = 0; repeat < 100; ++repeat) {
    const int n = random.between(2, 20);
    const auto scores = coarse_values(random, n);
    std::vector<std::int32_t> places(n);
    std::iota(places.begin(), places.end(), 0);
    int expected = 0;  // lowest but the newest token, ties the older
    for (int i = 1; i < n - 1; ++i) expected = scores[i] < scores[expected] ? i : expected;
    EXPECT_EQ(page_to_evict(page_scores(PageReduction::kMean, scores, places, places, n), 0),
              expected);
  }
}

}  // namespace
}  // namespace kvscope::testing
