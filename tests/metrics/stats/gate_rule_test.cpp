#include "metrics/stats/gate_rule.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace kvscope {
namespace {

// n pairs in clusters of their own: b - a alternates between mean - spread and mean + spread.
std::vector<Pair> pairs_of(int n, double mean, double spread) {
  std::vector<Pair> pairs;
  for (int i = 0; i < n; ++i) {
    pairs.push_back({std::to_string(i), 1.0, 1.0 + mean + (i % 2 == 0 ? spread : -spread)});
  }
  return pairs;
}

Verdict verdict_of(const std::vector<Pair>& pairs, const GateRule& rule) {
  const GateFigures figures = gate_figures(pairs, rule);
  return decide(figures, figures.inference ? figures.inference->p_worse : 1.0, rule);
}

TEST(GateRule, SignificanceAndSizeMakeAFail) {
  const GateRule rule{.margin = 0.02, .alpha = 0.01};
  EXPECT_EQ(verdict_of(pairs_of(40, -0.10, 0.05), rule), Verdict::kFail);
  EXPECT_EQ(verdict_of(pairs_of(40, -0.01, 0.005), rule), Verdict::kPass);  // worse, but by less
  EXPECT_EQ(verdict_of(pairs_of(40, 0.10, 0.05), rule), Verdict::kPass);
  EXPECT_EQ(verdict_of(pairs_of(40, -0.02, 0.30), rule), Verdict::kInconclusive);
  EXPECT_EQ(verdict_of(pairs_of(40, 0.0, 0.30), rule), Verdict::kInconclusive);
}

TEST(GateRule, CorrectionOverTheFamilyCanTakeAFailAway) {
  const GateRule rule{.margin = 0.0, .alpha = 0.01};
  const GateFigures figures = gate_figures(pairs_of(40, -0.03, 0.06), rule);
  ASSERT_LE(figures.inference->p_worse, 0.01);
  EXPECT_EQ(decide(figures, figures.inference->p_worse, rule), Verdict::kFail);
  EXPECT_EQ(decide(figures, 0.02, rule), Verdict::kInconclusive);
}

TEST(GateRule, EqualValuesPassWhateverTheMargin) {
  const GateRule rule{.margin = 0.0};
  EXPECT_EQ(verdict_of(pairs_of(30, 0.0, 0.0), rule), Verdict::kPass);
  EXPECT_TRUE(gate_figures(pairs_of(30, 0.0, 0.0), rule).identical);
}

TEST(GateRule, EquivalenceRefusesTheBetterToo) {
  const GateRule rule{.margin = 0.02, .equivalence = true};
  EXPECT_EQ(verdict_of(pairs_of(40, 0.005, 0.01), rule), Verdict::kPass);
  EXPECT_EQ(verdict_of(pairs_of(40, 0.10, 0.01), rule), Verdict::kInconclusive);
}

TEST(GateRule, TooLittleIsAnErrorAndNotAPass) {
  const GateRule rule{.margin = 0.02};
  EXPECT_EQ(verdict_of({}, rule), Verdict::kError);
  EXPECT_EQ(verdict_of(pairs_of(29, 0.0, 0.0), rule), Verdict::kError);
  std::vector<Pair> few_clusters = pairs_of(60, 0.0, 0.01);
  for (std::size_t i = 0; i < few_clusters.size(); ++i) {
    few_clusters[i].cluster = std::to_string(i % 9);
  }
  EXPECT_EQ(verdict_of(few_clusters, rule), Verdict::kError);
  std::vector<Pair> broken = pairs_of(40, 0.0, 0.01);
  broken[3].b = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(verdict_of(broken, rule), Verdict::kError);
  EXPECT_EQ(why_not_evaluable(gate_figures(broken, rule), rule), "values that are not finite");
}

TEST(GateRule, VerdictsExcludeEachOther) {
  for (int step = -60; step <= 60; ++step) {
    for (const double spread : {0.0, 0.01, 0.1, 1.0}) {
      const GateRule rule{.margin = 0.02};
      const GateFigures figures = gate_figures(pairs_of(30, step / 300.0, spread), rule);
      const auto& seen = *figures.inference;
      const bool passes = seen.lower > -rule.margin;
      const bool fails = seen.p_worse <= rule.alpha && seen.delta < -rule.margin;
      EXPECT_FALSE(passes && fails) << step << " " << spread;
    }
  }
}

TEST(GateRule, SaysHowManyClustersWouldSettleIt) {
  const GateRule rule{.margin = 0.02, .alpha = 0.01};
  const GateFigures unclear = gate_figures(pairs_of(40, 0.0, 0.10), rule);
  ASSERT_TRUE(unclear.inference->clusters_to_decide);
  const int enough = int(*unclear.inference->clusters_to_decide);
  EXPECT_GT(enough, 40);
  EXPECT_EQ(verdict_of(pairs_of(enough + enough % 2, 0.0, 0.10), rule), Verdict::kPass);
}

}  // namespace
}  // namespace kvscope
