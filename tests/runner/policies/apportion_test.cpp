// Whole tokens out of real shares, at ties, at exact integers and under caps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/policies/apportion.h"

namespace kvscope::testing {
namespace {

TEST(Apportion, TiesGoToTheLowerIndexAndIntegersStay) {
  EXPECT_THAT(largest_remainder(std::vector<double>{1.5, 2.5, 3.0}, 7),
              ::testing::ElementsAre(2, 2, 3));
  // 10/3 three times, in three roundings of the same number.
  EXPECT_THAT(
      largest_remainder(std::vector<double>{10.0 / 3.0, 10.0 * (1.0 / 3.0), 3.33333333333333}, 10),
      ::testing::ElementsAre(4, 3, 3));
  // An integer that a double misses from below stays the integer.
  EXPECT_THAT(largest_remainder(std::vector<double>{0.1 * 3 * 10 - 1e-15, 1.0}, 4),
              ::testing::ElementsAre(3, 1));
  EXPECT_TRUE(largest_remainder({}, 0).empty());
}

TEST(Apportion, WhatTheCapCutsGoesToTheOthers) {
  EXPECT_THAT(capped_shares(std::vector<double>{8.0, 1.0, 1.0}, 10, 4),
              ::testing::ElementsAre(4.0, 3.0, 3.0));
  // The second round caps another one.
  EXPECT_THAT(capped_shares(std::vector<double>{16.0, 3.0, 1.0}, 9, 4),
              ::testing::ElementsAre(4.0, 3.75, 1.25));
  EXPECT_THAT(capped_shares(std::vector<double>{1.0, 0.0, 0.0}, 10, 4),
              ::testing::ElementsAre(4.0, 3.0, 3.0));
  EXPECT_THAT(capped_shares(std::vector<double>{0.0, 0.0}, 3, 4), ::testing::ElementsAre(1.5, 1.5));
  EXPECT_THAT(capped_shares(std::vector<double>{1.0, 2.0}, 10, 4),
              ::testing::ElementsAre(4.0, 4.0));
}

}  // namespace
}  // namespace kvscope::testing
