// Metering changes nothing and counts what an engine really does, on a tiny random model.
#include "runner/backend/metered_backend.h"

#include "tests/runner/engine/tiny_engine.h"

namespace kvscope::testing {
namespace {

constexpr int kPromptTokens = 33;  // the last one is fed after the selection
constexpr int kNewTokens = 4;

std::vector<GenerateArmResult> generate(Engine& engine, const std::vector<std::string>& arms) {
  const std::vector<std::int32_t> prompt = random_ids(kPromptTokens);
  GenerateRequest request;
  request.prompt = prompt;
  request.max_new_tokens = kNewTokens;
  request.want_residents = true;
  for (const std::string& arm : arms) {
    request.arms.push_back({fit(arm, 12, kPromptTokens - 1, false), nullptr});
  }
  return engine.generate(std::span(&request, 1))->front();
}

const StageCounter& find(const MeteredBackend& backend, std::string_view stage, int n_out = 0,
                         int n_in = 0) {
  for (const StageCounter& c : backend.counters()) {
    if (c.stage == stage && c.n_out == n_out && c.n_in == n_in) return c;
  }
  static const StageCounter kNone;
  ADD_FAILURE() << "no counter " << stage << " [" << n_out << "][" << n_in << "]";
  return kNone;
}

TEST(MeteredBackend, ResultsAreThoseOfTheBackendInside) {
  TinyEngine plain(gqa_shape(), 2);
  MeteredBackend metered(*plain.backend);
  Engine engine(plain.model, metered);
  EXPECT_EQ(metered.name(), "cpu");
  EXPECT_EQ(metered.description(), plain.backend->description());
  EXPECT_EQ(metered.n_threads(), 2);

  const std::vector<std::string> arms = prompt_policies();
  const auto expected = generate(plain.engine, arms);
  const auto actual = generate(engine, arms);
  for (std::size_t i = 0; i < arms.size(); ++i) expect_same(expected[i], actual[i], arms[i]);

  const std::vector<std::int32_t> ids = random_ids(40);
  ScoreRequest request;
  request.tokens = ids;
  request.compare_full = true;
  const std::vector<ScoreArm> score_arms{{fit("h2o", 10, 40, true), nullptr},
                                         {fit("tova", 10, 40, true), nullptr}};
  const auto expected_score = plain.engine.score(request, score_arms).value();
  const auto actual_score = engine.score(request, score_arms).value();
  for (std::size_t i = 0; i < score_arms.size(); ++i) {
    expect_same(expected_score[i], actual_score[i], "score");
  }
}

TEST(MeteredBackend, ModelsMayBeLoadedThroughIt) {
  const auto backend = make_cpu_backend(1);
  MeteredBackend metered(*backend);
  const auto matrix =
      metered.pack(rows_of(std::vector<float>{1, 2, 3, 4, 5, 6}, 3), 2, 3, DType::kF32);
  std::vector<float> y(2);
  metered.matmul(*matrix, std::vector<float>{1, 10, 100}, 1, RowKind::kStep, y);
  EXPECT_EQ(y, (std::vector<float>{321, 654}));
}

TEST(MeteredBackend, CountsCallsAndWork) {
  TinyEngine plain(TinyModelShape{});  // 2 layers, 4 query heads over 2 of 8, width 32
  MeteredBackend metered(*plain.backend);
  Engine engine(plain.model, metered);
  generate(engine, {"full"});

  // 32 prompt tokens, then 4 steps; the prompt leaves its last layer after attention.
  EXPECT_EQ(find(metered, "embed").calls, 1 + 4);
  EXPECT_EQ(find(metered, "matmul", 64, 32).calls, 2 * (1 + 4));  // qkv
  EXPECT_EQ(find(metered, "matmul", 32, 32).calls, 1 + 2 * 4);    // output
  EXPECT_EQ(find(metered, "matmul", 96, 32).calls, 1 + 2 * 4);    // gate_up
  EXPECT_EQ(find(metered, "matmul", 32, 48).calls, 1 + 2 * 4);    // down
  EXPECT_EQ(find(metered, "matmul", 320, 32).calls, 4);           // head
  EXPECT_EQ(find(metered, "elementwise").calls, (5 + 1) + 4 * (2 * 5 + 1) + 4);
  EXPECT_EQ(find(metered, "attend_dense").calls, 2);
  EXPECT_EQ(find(metered, "scan").calls, 2 * 4);
  EXPECT_EQ(find(metered, "log_sum_exp").calls, 4);
  EXPECT_EQ(find(metered, "greedy").calls, 4);
  EXPECT_EQ(metered.counters().size(), 11U);  // one arm: nothing to compare or to gather

  EXPECT_EQ(find(metered, "matmul", 64, 32).work.flops, 2.0 * 64 * 32 * 2 * (32 + 4));
  EXPECT_EQ(find(metered, "matmul", 320, 32).work.flops, 2.0 * 320 * 32 * 4);
  EXPECT_EQ(find(metered, "attend_dense").work.flops, 2.0 * 4 * 8 * 4 * (32 * 33 / 2));
  EXPECT_EQ(find(metered, "scan").work.flops, 2.0 * 4 * 8 * 4 * (33 + 34 + 35 + 36));
  EXPECT_GE(find(metered, "matmul", 320, 32).work.bytes, 4.0 * 320 * 32 * 4);  // padding is read
  for (const StageCounter& c : metered.counters()) {
    EXPECT_GT(c.work.bytes, 0) << c.stage;
    EXPECT_GE(c.seconds, 0) << c.stage;
  }

  metered.reset();
  EXPECT_TRUE(metered.counters().empty());
}

TEST(MeteredBackend, ThePromptsCutIsCountedToo) {
  TinyEngine plain(TinyModelShape{});
  MeteredBackend metered(*plain.backend);
  Engine engine(plain.model, metered);
  generate(engine, {"snapkv"});
  EXPECT_EQ(find(metered, "column_weights").calls, 2);  // one a layer
  EXPECT_GT(find(metered, "column_weights").work.flops, 0);
  EXPECT_EQ(find(metered, "gather").calls, 2);
  EXPECT_EQ(find(metered, "gather").work.flops, 0);
  // 12 of the prompt's tokens for each of 2 layers and KV heads: read as floats, kept as floats.
  EXPECT_EQ(find(metered, "gather").work.bytes, 2 * 2 * 12 * (2 * 8 * 4) * 2);
}

}  // namespace
}  // namespace kvscope::testing
