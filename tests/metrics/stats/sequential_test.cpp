#include "metrics/stats/sequential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runner/base/splitmix.h"

namespace kvscope {
namespace {

TEST(Sequential, FollowsItsFormula) {
  // t of -2, -1.5, 0.5 and -3 with 9 degrees of freedom; expected values by SciPy.
  const std::vector<NightResult> nights = {
      {-2.0, 1.0, 9}, {-1.5, 1.0, 9}, {0.5, 1.0, 9}, {-3.0, 1.0, 9}};
  const std::vector<double> evidence = evidence_of_worse(nights, 0.0);
  ASSERT_EQ(evidence.size(), 4U);
  EXPECT_NEAR(evidence[0], 2.7719218520005167, 1e-9);  // quantiles of two libraries
  EXPECT_NEAR(evidence[1], 5.828204415576045, 1e-9);
  EXPECT_EQ(evidence[2], evidence[1]);  // the largest so far
  EXPECT_NEAR(evidence[3], 11.925671428151908, 1e-8);
}

TEST(Sequential, AMarginMovesTheNull) {
  const std::vector<NightResult> nights(20, {-0.05, 0.02, 30});
  EXPECT_GT(evidence_of_worse(nights, 0.0).back(), 1e3);
  EXPECT_LT(evidence_of_worse(nights, 0.05).back(), 2.0);
}

TEST(Sequential, NightsWithoutSpreadCountOnlyBeyondTheMargin) {
  EXPECT_EQ(evidence_of_worse(std::vector<NightResult>{{0.0, 0.0, 9}}, 0.01).back(), 1.0);
  const double beyond = evidence_of_worse(std::vector<NightResult>{{-1.0, 0.0, 9}}, 0.01).back();
  EXPECT_TRUE(std::isfinite(beyond));
  EXPECT_GT(beyond, 100.0);
  EXPECT_TRUE(evidence_of_worse({}, 0.01).empty());
}

// Ville: below 5 % of a hundred nights under the null ever reach 20. Uniform draws through the
// normal quantile would need a library; sums of twelve uniforms are normal enough for a count.
TEST(Sequential, SeldomAlarmsWithoutADifference) {
  std::uint64_t state = 1;
  const auto uniform = [&] { return double(smix(state++) >> 11) * 0x1p-53; };
  int alarms = 0;
  constexpr int kSeries = 400;
  for (int s = 0; s < kSeries; ++s) {
    std::vector<NightResult> nights;
    for (int n = 0; n < 100; ++n) {
      double z = -6;
      for (int i = 0; i < 12; ++i) z += uniform();
      nights.push_back({z, 1.0, 1'000'000});
    }
    alarms += evidence_of_worse(nights, 0.0).back() >= 20 ? 1 : 0;
  }
  EXPECT_LE(alarms, kSeries * 5 / 100);  // 8 were seen: the bound is not tight within 100 nights
}

}  // namespace
}  // namespace kvscope
