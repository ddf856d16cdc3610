#include "metrics/probes/row_alarm.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvscope {
namespace {

// Two values in turn: deviation 0.1 around 2.
double calm(int row) { return 2 + (row % 2 == 0 ? 0.1 : -0.1); }

RowAlarm taught(int rows) {
  RowAlarm alarm;
  for (int row = 0; row < rows; ++row) EXPECT_FALSE(alarm.add(calm(row), calm(row + 1))) << row;
  return alarm;
}

TEST(MovingMoments, FollowTheirFormula) {
  MovingMoments moments(3);  // share 1/2
  moments.add(4);
  EXPECT_EQ(moments.mean(), 4);
  EXPECT_EQ(moments.deviation(), 0);
  moments.add(6);
  EXPECT_EQ(moments.mean(), 5);
  EXPECT_EQ(moments.deviation(), 1);  // (0 + 2 · 1) / 2
  moments.add(5);
  EXPECT_EQ(moments.mean(), 5);
  EXPECT_EQ(moments.deviation(), std::sqrt(0.5));
}

TEST(RowAlarm, StaysSilentWhereNothingChanges) { taught(500); }

TEST(RowAlarm, FiresWhenEntropyMovesEitherWay) {
  for (const double entropy : {1.5, 2.5}) EXPECT_TRUE(taught(200).add(entropy, 2.0)) << entropy;
}

TEST(RowAlarm, FiresWhenTheVisibleMassDropsButNotWhenItRises) {
  EXPECT_TRUE(taught(200).add(2.0, 1.5));
  EXPECT_FALSE(taught(200).add(2.0, 2.5));
}

TEST(RowAlarm, LearnsBeforeItFires) {
  EXPECT_FALSE(taught(RowAlarm::kQuietRows - 1).add(9, 9));
  EXPECT_TRUE(taught(RowAlarm::kQuietRows).add(9, 9));
}

TEST(RowAlarm, PassesOverWhatIsNotFinite) {
  RowAlarm alarm = taught(100);
  EXPECT_FALSE(alarm.add(std::nan(""), 2.0));
  EXPECT_FALSE(alarm.add(2.0, -INFINITY));
  EXPECT_TRUE(alarm.add(3.0, 2.0));
}

}  // namespace
}  // namespace kvscope
