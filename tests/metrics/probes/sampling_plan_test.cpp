#include "metrics/probes/sampling_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace kvscope {
namespace {

using Layers = std::vector<int>;

TEST(SamplingPlan, LayersAreTheEndsAndTheQuarters) {
  EXPECT_EQ(sampled_plan(30, 0).layers, (Layers{0, 7, 15, 22, 29}));
  EXPECT_EQ(sampled_plan(32, 0).layers, (Layers{0, 8, 16, 24, 31}));
  EXPECT_EQ(sampled_plan(5, 0).layers, (Layers{0, 1, 2, 3, 4}));
  EXPECT_EQ(sampled_plan(2, 0).layers, (Layers{0, 1}));
  EXPECT_EQ(sampled_plan(1, 0).layers, (Layers{0}));
}

TEST(SamplingPlan, EveryEighthPositionShowsGhosts) {
  SamplingPlan plan = sampled_plan(30, 0);
  EXPECT_EQ(plan.every, 8);
  EXPECT_EQ(plan.burst_rows, 4);
  plan.phase = 3;
  for (int position = 0; position < 64; ++position)
    EXPECT_EQ(plan.shows_ghosts(position), position % 8 == 3) << position;
}

// smix(0) = e220a8397b1dcdaf, whose last three bits are 7.
TEST(SamplingPlan, ThePhaseIsDrawnFromTheInput) {
  EXPECT_EQ(sampled_plan(30, 0).phase, 7);
  EXPECT_EQ(phase_seed("00000000000000ff0123456789abcdef"), 255U);
  EXPECT_EQ(phase_seed(""), 0U);
  std::array<int, 8> counts{};
  for (std::uint64_t seed = 0; seed < 8000; ++seed)
    ++counts[std::size_t(sampled_plan(30, seed).phase)];
  // Binomial(8000, 1/8) has a standard deviation of 29.6: five of them.
  for (const int count : counts) EXPECT_NEAR(count, 1000, 148);
}

TEST(SamplingPlan, SaysWhatItLooksAt) {
  EXPECT_EQ(sampled_plan(30, 5).text(), "sampled, 5 of 30 layers, every 8th step");
  EXPECT_EQ(by_product_plan(30).text(), "sampled, 5 of 30 layers, every step, no ghosts");
  EXPECT_EQ(complete_plan(30).text(), "all 30 layers, every step");
}

TEST(SamplingPlan, OnlyACompleteOneLooksAtEverything) {
  EXPECT_TRUE(complete_plan(30).is_complete());
  EXPECT_FALSE(sampled_plan(30, 0).is_complete());
  // Of two layers it samples both, but not every step.
  EXPECT_FALSE(sampled_plan(2, 0).is_complete());
  EXPECT_FALSE(by_product_plan(2).is_complete());
}

TEST(SamplingPlan, TheExtraLayerIsLookedAtToo) {
  SamplingPlan plan = sampled_plan(30, 0);
  EXPECT_FALSE(plan.looks_at(12));
  plan.extra_layer = 12;
  EXPECT_TRUE(plan.looks_at(12));
  EXPECT_TRUE(plan.looks_at(15));
  EXPECT_FALSE(plan.looks_at(13));
}

}  // namespace
}  // namespace kvscope
