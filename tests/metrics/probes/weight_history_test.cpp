#include "metrics/probes/weight_history.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvscope {
namespace {

void add(WeightHistory& history, std::vector<float> weights) { history.add_row(weights); }

TEST(WeightHistory, CoversTheLastRowsOfASlot) {
  WeightHistory history(2);
  add(history, {1});
  add(history, {0.5F, 0.25F});
  EXPECT_EQ(history.mean(0), 0.75);
  EXPECT_EQ(history.mean(1), 0.25);
  add(history, {0.25F, 0.75F});
  EXPECT_EQ(history.mean(0), 0.375);
  EXPECT_EQ(history.mean(1), 0.5);
}

TEST(WeightHistory, MovesWithTheLastSlot) {
  WeightHistory history(4);
  add(history, {0.5F, 0.25F, 0.125F});
  history.remove(0, 2);
  EXPECT_EQ(history.n_slots(), 2);
  EXPECT_EQ(history.mean(0), 0.125);
  EXPECT_EQ(history.mean(1), 0.25);
  history.remove(1, 1);
  EXPECT_EQ(history.n_slots(), 1);
  EXPECT_EQ(history.mean(0), 0.125);
}

TEST(WeightHistory, ANewTokenInheritsNothingFromItsSlot) {
  WeightHistory history(4);
  add(history, {0.5F, 1.0F});
  history.remove(1, 1);
  add(history, {0.5F, 0.25F});
  EXPECT_EQ(history.mean(1), 0.25);
}

TEST(WeightHistory, StartsFromMeansThatLaterRowsReplaceOneByOne) {
  WeightHistory history(4);
  history.start_with_means(std::vector<float>{0.5F, 0.25F});
  EXPECT_EQ(history.mean(0), 0.5);
  add(history, {0.0F, 0.25F, 1.0F});
  EXPECT_EQ(history.mean(0), 0.375);
  EXPECT_EQ(history.mean(1), 0.25);
  EXPECT_EQ(history.mean(2), 1);
  for (int i = 0; i < 3; ++i) add(history, {0.0F, 0.25F, 1.0F});
  EXPECT_EQ(history.mean(0), 0);
}

TEST(WeightHistory, OfAnUnseenSlotIsZero) {
  WeightHistory history(4);
  EXPECT_EQ(history.mean(3), 0);
  history.remove(2, 3);
  EXPECT_EQ(history.n_slots(), 3);
  EXPECT_EQ(history.mean(2), 0);
}

}  // namespace
}  // namespace kvscope
