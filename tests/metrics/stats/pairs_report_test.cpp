#include "metrics/stats/pairs_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kvscope {
namespace {

TEST(PairsReport, AddsYesNoTestsOnlyForZerosAndOnes) {
  const std::vector<Pair> yes_no = {{"x", 1, 0}, {"y", 1, 1}, {"z", 0, 0}, {"z", 1, 0}};
  const PairedSummary summary = summarise_pairs(yes_no, std::nullopt);
  ASSERT_TRUE(summary.mcnemar_exact && summary.wilson95_a && summary.wilson95_b);
  EXPECT_EQ(summary.mcnemar_exact->gained, 0);
  EXPECT_EQ(summary.mcnemar_exact->lost, 2);
  EXPECT_EQ(summary.sign_flip_exact->p_less,
            1.0 / 4);  // one cluster without change, which counts twice

  std::vector<Pair> other = yes_no;
  other[2].b = 0.5;
  EXPECT_FALSE(summarise_pairs(other, std::nullopt).mcnemar_exact);
  EXPECT_FALSE(summarise_pairs(other, std::nullopt).wilson95_a);
}

TEST(PairsReport, EnumeratesFlipsOfFourteenClustersAtMost) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 14; ++i) pairs.push_back({std::to_string(i), 0, 1.5 + i});
  EXPECT_TRUE(summarise_pairs(pairs, std::nullopt).sign_flip_exact);
  pairs.push_back({"one more", 0, 1});
  EXPECT_FALSE(summarise_pairs(pairs, std::nullopt).sign_flip_exact);
}

TEST(PairsReport, LeavesOutAndCountsWhatIsNotFinite) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Pair> pairs = {{"x", 0, 1},   {"y", 0, 2},        {"z", 0, 3},
                                   {"u", nan, 1}, {"v", 0, infinity}, {"w", 1e308, -1e308}};
  const PairedSummary summary = summarise_pairs(pairs, 0.1);
  EXPECT_EQ(summary.nonfinite_pairs, 3);
  EXPECT_EQ(summary.paired.n, 3);
  EXPECT_EQ(summary.paired.mean_difference, 2);
  EXPECT_TRUE(std::isfinite(summary.welch_unpaired->t));
}

TEST(PairsReport, WelchThrowsThePairingAway) {
  const std::vector<Pair> pairs = {{"x", 1, 2}, {"y", 2, 4}, {"z", 3, 6}};
  const Welch welch = summarise_pairs(pairs, std::nullopt).welch_unpaired.value();
  EXPECT_DOUBLE_EQ(welch.t, 2 / std::sqrt(5.0 / 3));
  EXPECT_DOUBLE_EQ(welch.df, 50.0 / 17);
}

TEST(PairsReport, OfNothingOrOnePairHoldsNoNumbers) {
  for (const std::vector<Pair>& pairs : {std::vector<Pair>{}, std::vector<Pair>{{"x", 0.5, 2}}}) {
    const PairedSummary summary = summarise_pairs(pairs, 0.1);
    EXPECT_FALSE(summary.paired.inference);
    EXPECT_FALSE(summary.mde_one_sided_05_power_80);
    EXPECT_FALSE(summary.welch_unpaired);
    EXPECT_EQ(summary.sign_flip_exact.has_value(), !pairs.empty());
    EXPECT_FALSE(summary.wilson95_a);
  }
}

TEST(PairsReport, OfConstantEqualColumnsIsIdenticalAndFinite) {
  const std::vector<Pair> pairs = {{"x", 1, 1}, {"y", 1, 1}};
  const PairedSummary summary = summarise_pairs(pairs, 0.1);
  EXPECT_TRUE(summary.paired.identical);
  EXPECT_EQ(summary.mde_one_sided_05_power_80, 0);
  EXPECT_FALSE(summary.welch_unpaired);
  EXPECT_EQ(summary.mcnemar_exact->p_two_sided, 1);
  EXPECT_EQ(summary.sign_flip_exact->p_two_sided, 1);
}

}  // namespace
}  // namespace kvscope
