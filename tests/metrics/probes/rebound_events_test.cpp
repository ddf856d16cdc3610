#include "metrics/probes/rebound_events.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvscope {
namespace {

std::vector<int> event_steps(double threshold, const std::vector<double>& weights) {
  std::vector<int> steps;
  bool is_armed = true;
  for (int step = 0; step < std::ssize(weights); ++step) {
    if (rebound_step({}, threshold, weights[std::size_t(step)], is_armed)) steps.push_back(step);
  }
  return steps;
}

TEST(ReboundEvents, ThresholdIsTheLargerOfUniformAndHistory) {
  EXPECT_EQ(rebound_threshold({}, 8, 0.03), 0.125);
  EXPECT_EQ(rebound_threshold({}, 8, 0.1), 0.2);
  EXPECT_EQ(rebound_threshold({.floor = 3, .kappa = 4}, 8, 0.03), 0.375);
}

TEST(ReboundEvents, FireOnceUntilTheWeightFell) {
  EXPECT_EQ(event_steps(0.125, {0.05, 0.2, 0.22, 0.1, 0.04, 0.3}), (std::vector{1, 5}));
  EXPECT_EQ(event_steps(0.125, {0.2, 0.1, 0.2}), (std::vector{0}));  // 0.1 is not below 0.0625
}

TEST(ReboundEvents, AreStrict) {
  EXPECT_TRUE(event_steps(0.125, {0.125}).empty());
  EXPECT_EQ(event_steps(0.125, {0.25, 0.0625, 0.25}), (std::vector{0}));
  EXPECT_EQ(event_steps(0.125, {0.25, 0.062, 0.25}), (std::vector{0, 2}));
}

TEST(ReboundEvents, AreWrongfulOnlyAboveSomeResident) {
  EXPECT_TRUE(is_wrongful_eviction(0.2, 0.1));
  EXPECT_FALSE(is_wrongful_eviction(0.2, 0.2));
}

}  // namespace
}  // namespace kvscope
