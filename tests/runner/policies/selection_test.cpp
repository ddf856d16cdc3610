// top_k, protection and pooling on literal arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runner/policies/protect.h"
#include "runner/policies/snapkv.h"
#include "runner/policies/top_k.h"
#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<Candidate<float>> candidates(const std::vector<float>& scores) {
  std::vector<Candidate<float>> list;
  for (const float score : scores) {
    const auto i = static_cast<std::int32_t>(list.size());
    list.push_back({score, i, i});
  }
  return list;
}

TEST(TopK, takes_the_largest_and_returns_them_ascending) {
  EXPECT_EQ(top_k(candidates({0.1F, 0.9F, 0.5F, 0.7F}), 2).slots, (Positions{1, 3}));
  EXPECT_TRUE(top_k(candidates({0.1F}), 0).slots.empty());
  EXPECT_TRUE(top_k(candidates({0.1F}), -1).slots.empty());
  EXPECT_EQ(top_k(candidates({0.1F, 0.2F}), 5).slots, (Positions{0, 1}));
  EXPECT_TRUE(top_k(candidates({}), 3).slots.empty());
}

TEST(TopK, equal_scores_keep_the_newer_position_whatever_its_slot) {
  EXPECT_EQ(top_k(candidates({1, 1, 1, 1}), 2).slots, (Positions{2, 3}));
  EXPECT_EQ(top_k(candidates({-0.0F, 0.0F, -0.0F}), 1).slots, (Positions{2}));
  const std::vector<Candidate<float>> shuffled = {{1.0F, 9, 0}, {1.0F, 3, 1}, {1.0F, 5, 2}};
  EXPECT_EQ(top_k(shuffled, 2).slots, (Positions{0, 2}));
}

TEST(TopK, nan_is_last_and_counted) {
  const TopK kept = top_k(candidates({kNan, -kInf, kNan, 0.0F}), 3);
  EXPECT_EQ(kept.slots, (Positions{1, 2, 3}));
  EXPECT_EQ(kept.nan_scores, 2);
}

TEST(TopK, integers_are_compared_as_integers) {
  const std::uint64_t big = (1ULL << 60) + 1;  // float could not tell it from its neighbour
  const std::vector<Candidate<std::uint64_t>> list = {{big, 0, 0}, {big - 1, 1, 1}};
  EXPECT_EQ(top_k(list, 1).slots, (Positions{0}));
}

TEST(Protection, sinks_recent_and_last_stay_whatever_their_score) {
  const Positions positions = {0, 1, 4, 5, 8, 9};
  const std::vector<float> scores = {0, 3, 2, 9, 0, 0};
  const auto keep = [&](Protection protection, int budget) {
    return keep_protected_and_best<float>(protection, positions, scores, budget).slots;
  };
  EXPECT_EQ(keep({.sinks = 1, .recent = 2}, 4), (Positions{0, 3, 4, 5}));
  EXPECT_EQ(keep({.recent = 0}, 2), (Positions{3, 5}));
  EXPECT_EQ(keep({.recent = 0, .last = false}, 2), (Positions{1, 3}));
  EXPECT_EQ(keep({.sinks = 9}, 6), (Positions{0, 1, 2, 3, 4, 5}));
  // recent counts positions, not slots: 5 … 9 less the gap.
  EXPECT_EQ(keep({.recent = 5}, 3), (Positions{3, 4, 5}));
}

TEST(Protection, more_protected_than_fits_keeps_the_newest_of_them) {
  const Positions positions = {7, 0, 5, 6};
  const std::vector<float> scores = {0, 9, 9, 9};
  EXPECT_EQ(keep_protected_and_best<float>({.sinks = 1, .recent = 2}, positions, scores, 2).slots,
            (Positions{0, 3}));
}

TEST(SnapKvPooling, pads_averages_with_zero_or_not_at_all) {
  const std::vector<float> scores = {3, 6, 0, 3, 9};
  EXPECT_EQ(pool_scores({.kernel = 3}, scores), (std::vector<float>{3, 3, 3, 4, 4}));
  EXPECT_EQ(pool_scores({.kernel = 3, .valid_edge = true}, scores),
            (std::vector<float>{4.5F, 3, 3, 4, 6}));
  EXPECT_EQ(pool_scores({.kernel = 1}, scores), scores);
  EXPECT_EQ(pool_scores({.pool = SnapKvOptions::Pool::kMax, .kernel = 3}, scores),
            (std::vector<float>{6, 6, 6, 9, 9}));
  EXPECT_EQ(
      pool_scores({.pool = SnapKvOptions::Pool::kMax, .kernel = 3}, std::vector<float>{-2, -1, -3}),
      (std::vector<float>{-1, -1, -1}));
  // Wider than the prefix.
  EXPECT_EQ(pool_scores({.kernel = 5}, std::vector<float>{5, 10}), (std::vector<float>{3, 3}));
  EXPECT_TRUE(pool_scores({.kernel = 5}, std::vector<float>{}).empty());
}

TEST(SnapKvPooling, nan_does_not_hide_in_a_maximum) {
  const SnapKvOptions max{
      .pool = SnapKvOptions::Pool::kMax, .gqa = SnapKvOptions::Gqa::kMax, .window = 0, .kernel = 1};
  const std::vector<float> weights = {kNan, 1, 1, kNan};  // two heads of two tokens
  for (const float score : snapkv_scores(max, weights, 2, 2)) EXPECT_TRUE(std::isnan(score));
}

TEST(SnapKvPooling, reduces_the_group_as_asked) {
  const std::vector<float> weights = {1, 4, 8, 3, 2, 8};  // two heads, prefix of two, window of one
  SnapKvOptions options{.window = 1, .kernel = 1};
  EXPECT_EQ(snapkv_scores(options, weights, 2, 3), (std::vector<float>{2, 3}));
  options.gqa = SnapKvOptions::Gqa::kMax;
  EXPECT_EQ(snapkv_scores(options, weights, 2, 3), (std::vector<float>{3, 4}));
  options.gqa = SnapKvOptions::Gqa::kSum;
  EXPECT_EQ(snapkv_scores(options, weights, 2, 3), (std::vector<float>{4, 6}));
}

TEST(SnapKvPooling, item_6_averages_commute_with_the_group_mean) {
  double worst = 0.0;
  for (int seed = 0; seed < 1000; ++seed) {
    const RandomCase c = random_case(seed);
    const int n = c.table().n_tokens;
    const auto weights = column_weights(
        c.table(), {.rows = PromptNeed::Rows::kLast, .last_rows = 1, .mean = true}, n);
    SnapKvOptions options{.window = 1, .kernel = 3};
    const auto agg_pool = snapkv_scores(options, weights, c.table().n_heads, n);
    options.pool_first = true;
    const auto pool_agg = snapkv_scores(options, weights, c.table().n_heads, n);
    for (std::size_t i = 0; i < agg_pool.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(agg_pool[i]) - pool_agg[i]));
    }
  }
  // Equal up to rounding of values below 1; measured 4.5e-8.
  EXPECT_LT(worst, 2e-7);
  EXPECT_GT(worst, 0.0);
}

}  // namespace
}  // namespace kvscope::testing
