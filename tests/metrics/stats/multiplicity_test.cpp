#include "metrics/stats/multiplicity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvscope {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(Multiplicity, HolmStepsDownAndNeverFalls) {
  EXPECT_THAT(holm_adjusted(std::vector<double>{0.01, 0.04, 0.03}),
              ElementsAre(DoubleEq(0.03), DoubleEq(0.06), DoubleEq(0.06)));
}

TEST(Multiplicity, BenjaminiHochbergStepsUpAndNeverRises) {
  EXPECT_THAT(benjamini_hochberg_adjusted(std::vector<double>{0.01, 0.04, 0.03}),
              ElementsAre(DoubleEq(0.03), DoubleEq(0.04), DoubleEq(0.04)));
}

TEST(Multiplicity, NothingExceedsOneAndOneTestStaysAsItIs) {
  EXPECT_THAT(holm_adjusted(std::vector<double>{0.9, 0.8}), ElementsAre(1, 1));
  EXPECT_THAT(holm_adjusted(std::vector<double>{0.2}), ElementsAre(0.2));
  EXPECT_THAT(benjamini_hochberg_adjusted(std::vector<double>{0.2}), ElementsAre(0.2));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

}  // namespace
}  // namespace kvscope
