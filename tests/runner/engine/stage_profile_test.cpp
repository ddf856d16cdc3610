#include "runner/engine/stage_profile.h"

#include "runner/base/error.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope::testing {
namespace {

std::vector<std::string> names(const Model& model, const ProfilePhase& phase) {
  std::vector<std::string> out;
  for (const StageCounter& stage : phase.stages) out.push_back(stage_name(model, stage));
  return out;
}

const StageCounter& find(const ProfilePhase& phase, std::string_view stage) {
  return *std::find_if(phase.stages.begin(), phase.stages.end(),
                       [&](const StageCounter& c) { return c.stage == stage; });
}

TEST(StageProfile, OnePhaseForThePromptAndOneForEachNumberOfRows) {
  TinyEngine tiny(TinyModelShape{});
  const auto phases = profile_stages(tiny.model, *tiny.backend, {40, 3, {1, 5}});
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_TRUE(phases[0].is_prefill);
  EXPECT_EQ(phases[0].rows, 40);
  EXPECT_EQ(phases[0].steps, 1);
  EXPECT_FALSE(phases[2].is_prefill);
  EXPECT_EQ(phases[2].rows, 5);
  EXPECT_EQ(phases[2].steps, 3);
  EXPECT_EQ(names(tiny.model, phases[0]),
            (std::vector<std::string>{"embed", "elementwise", "qkv", "attend_dense", "output",
                                      "gate_up", "down"}));
  EXPECT_EQ(names(tiny.model, phases[1]),
            (std::vector<std::string>{"embed", "elementwise", "qkv", "scan", "output", "gate_up",
                                      "down", "head", "log_sum_exp", "greedy"}));
  // Warm-up rounds are left out; every row continues the prompt on its own.
  EXPECT_EQ(find(phases[0], "attend_dense").calls, 2);
  EXPECT_EQ(find(phases[2], "scan").calls, 2 * 3);
  EXPECT_EQ(find(phases[2], "scan").work.flops, 5 * 2.0 * 4 * 8 * 4 * (41 + 42 + 43));
  for (const ProfilePhase& phase : phases) {
    EXPECT_GT(phase.seconds, 0);
    EXPECT_GT(phase.tokens_per_second(), 0);
    EXPECT_GE(phase.seconds_outside_stages(), 0);
  }
}

TEST(StageProfile, StaysWithinTheModelsContext) {
  TinyModelShape shape;
  shape.context_length = 20;
  TinyEngine tiny(shape);
  EXPECT_EQ(profile_stages(tiny.model, *tiny.backend, {}).front().rows, 4);
  EXPECT_THROW(profile_stages(tiny.model, *tiny.backend, {512, 20, {1}}), UsageError);
}

TEST(StageProfile, MatricesOfOneShapeShareAName) {
  TinyEngine tiny(gqa_shape());  // 6 heads of 8: as wide as the feed-forward part's 48
  StageCounter counter;
  counter.stage = "matmul";
  counter.n_out = 32;
  counter.n_in = 48;
  EXPECT_EQ(stage_name(tiny.model, counter), "output+down");
  counter.n_in = 7;
  EXPECT_EQ(stage_name(tiny.model, counter), "matmul");
}

}  // namespace
}  // namespace kvscope::testing
