// A text in chunks is the same computation as the text at once: every bit of every result.
#include <gtest/gtest.h>

#include "metrics/probes/attention_probe.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;

constexpr int kTokens = 230;  // more than seven pages
constexpr int kBudget = 40;
constexpr int kChunks[] = {48, 64, 1000};  // neither divides the text; the last one holds it
constexpr int kWhole = kTokens;

ScoreRequest request_of(const std::vector<std::int32_t>& ids, int chunk_tokens, int prompt = 0) {
  ScoreRequest request;
  request.tokens = ids;
  request.prompt_tokens = prompt;
  request.want_residents = true;
  request.top = 2;
  request.chunk_tokens = chunk_tokens;
  return request;
}

ScoreArm arm_of(const std::string& text, int length, bool in_stream) {
  return {fit(text, kBudget, length, in_stream), nullptr, in_stream};
}

void expect_equal(const ScoreArmResult& a, const ScoreArmResult& b, const std::string& what) {
  expect_same(a, b, what);
  EXPECT_EQ(a.mode, b.mode) << what;
  EXPECT_EQ(a.top, b.top) << what;
  EXPECT_EQ(a.ledger.bytes_by_row, b.ledger.bytes_by_row) << what;
  EXPECT_EQ(a.ledger.bytes_by_layer, b.ledger.bytes_by_layer) << what;
  EXPECT_EQ(a.ledger.peak_resident_tokens, b.ledger.peak_resident_tokens) << what;
  EXPECT_EQ(a.ledger.peak_visible_tokens, b.ledger.peak_visible_tokens) << what;
  EXPECT_EQ(a.ledger.ghost_peak_bytes, b.ledger.ghost_peak_bytes) << what;
  EXPECT_EQ(a.ledger.mean_resident_tokens, b.ledger.mean_resident_tokens) << what;
}

void expect_same_in_chunks(Engine& engine, const std::vector<std::int32_t>& ids,
                           const std::vector<ScoreArm>& arms, int prompt, const std::string& what) {
  const auto whole = *engine.score(request_of(ids, kWhole, prompt), arms);
  for (const int chunk : kChunks) {
    const auto parts = *engine.score(request_of(ids, chunk, prompt), arms);
    for (std::size_t i = 0; i < arms.size(); ++i) {
      expect_equal(whole[i], parts[i],
                   what + " arm " + std::to_string(i) + " in chunks of " + std::to_string(chunk));
    }
  }
  EXPECT_EQ(engine.pool_held_pages(), 0) << what;
}

std::vector<std::string> evicting_policies() {
  std::vector<std::string> texts = in_stream_policies();
  std::erase(texts, "full");
  return texts;
}

const std::vector<std::string> kStreamedPrompts = {
    "h2o:prefill=streaming:chunk=7",
    "streaming_llm:prefill=streaming",
    "streaming_llm:prefill=streaming:chunk=6:decode=window",
    "random:positions=rerotate:prefill=streaming:decode=window",
    "streaming_llm:positions=cache_relative:prefill=streaming:chunk=50",
    "tova:prefill=streaming:chunk=4:decode=grow",
    "h2o:norm=mean:prefill=streaming:chunk=5:decode=window"};

class ScoreChunks : public ::testing::TestWithParam<TinyModelShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ScoreChunks, ::testing::Values(gqa_shape(), mqa_shape()),
                         [](const auto& param) {
                           return std::to_string(param.param.n_heads) + "x" +
                                  std::to_string(param.param.n_kv_heads);
                         });

TEST_P(ScoreChunks, EveryPolicyInStreamAlone) {
  TinyEngine tiny(GetParam());
  const auto ids = random_ids(kTokens);
  for (const std::string& text : evicting_policies()) {
    expect_same_in_chunks(tiny.engine, ids, {arm_of(text, kTokens, true)}, 0, text);
  }
}

TEST_P(ScoreChunks, EveryPolicyInStreamThroughItsHostCode) {
  TinyEngine tiny(GetParam());
  tiny.engine.use_host_rules(true);
  const auto ids = random_ids(kTokens);
  for (const std::string& text : evicting_policies()) {
    expect_same_in_chunks(tiny.engine, ids, {arm_of(text, kTokens, true)}, 0, text);
  }
}

TEST_P(ScoreChunks, AllArmsTogetherOnTwoThreads) {
  TinyEngine tiny(GetParam(), 2);
  const auto ids = random_ids(kTokens);
  std::vector<ScoreArm> arms;
  for (const std::string& text : evicting_policies()) arms.push_back(arm_of(text, kTokens, true));
  constexpr int kPrompt = 150;
  for (const std::string& text : kStreamedPrompts) arms.push_back(arm_of(text, kPrompt, false));
  expect_same_in_chunks(tiny.engine, ids, arms, kPrompt, "together");
}

// Prompts that end inside a chunk, at its end, and with the text; and eviction every few rows,
// whose phase must not start again with a chunk.
TEST_P(ScoreChunks, StreamedPrompts) {
  TinyEngine tiny(GetParam());
  const auto ids = random_ids(kTokens);
  for (const std::string& text : kStreamedPrompts) {
    for (const int prompt : {150, 192, kTokens}) {
      expect_same_in_chunks(tiny.engine, ids, {arm_of(text, prompt, false)}, prompt, text);
    }
  }
}

TEST(ScoreChunksOf, OneTokenAreTheTokenLoop) {
  TinyEngine tiny(gqa_shape());
  const auto ids = random_ids(90);
  for (const std::string& text : {"h2o", "tova", "streaming_llm:positions=rerotate"}) {
    const std::vector arms{arm_of(text, 90, true)};
    ScoreRequest token_by_token = request_of(ids, 0);
    token_by_token.token_major = true;
    expect_same((*tiny.engine.score(token_by_token, arms))[0],
                (*tiny.engine.score(request_of(ids, 1), arms))[0], text);
  }
}

TEST(ScoreChunksOf, ProbedArmsMeasureTheSame) {
  TinyEngine tiny(gqa_shape(), 2);
  const auto ids = random_ids(kTokens);
  for (const std::string& text : {"h2o", "tova", "random"}) {
    std::vector<ProbeSummary> seen;
    std::vector<ScoreArmResult> results;
    for (const int chunk : {kWhole, 48}) {
      const ModelConfig& c = tiny.model.config;
      AttentionProbe probe({c.n_layers, c.n_kv_heads, c.group()});
      ScoreArm arm = arm_of(text, kTokens, true);
      arm.probe = &probe;
      results.push_back((*tiny.engine.score(request_of(ids, chunk), std::vector{arm}))[0]);
      seen.push_back(probe.summary());
    }
    expect_equal(results[0], results[1], text);
    EXPECT_GT(results[0].ledger.ghost_peak_bytes, 0);
    EXPECT_GT(seen[0].rebound_mass.overall.n, 0);
    EXPECT_EQ(seen[0].rebound_mass.overall.n, seen[1].rebound_mass.overall.n);
    EXPECT_EQ(seen[0].rebound_mass.overall.mean, seen[1].rebound_mass.overall.mean);
    EXPECT_EQ(seen[0].hit_at_32.overall.mean, seen[1].hit_at_32.overall.mean);
    EXPECT_EQ(seen[0].rebound_events, seen[1].rebound_events);
    EXPECT_EQ(seen[0].ghost_steps, seen[1].ghost_steps);
  }
}

TEST(ScoreChunksOf, ArmsWithDenseRowsStayOnePass) {
  TinyEngine tiny(gqa_shape());
  const auto ids = random_ids(kTokens);
  expect_same_in_chunks(tiny.engine, ids,
                        {arm_of("full", kTokens, true), arm_of("h2o", kTokens, true)}, 0, "full");
  expect_same_in_chunks(tiny.engine, ids, {arm_of("snapkv", 100, false)}, 100, "snapkv");
  ScoreRequest compared = request_of(ids, kWhole);
  compared.compare_full = true;
  const std::vector arms{arm_of("h2o", kTokens, true)};
  const auto whole = *tiny.engine.score(compared, arms);
  compared.chunk_tokens = 48;
  expect_equal(whole[0], (*tiny.engine.score(compared, arms))[0], "compared");
}

TEST(ScoreChunksOf, TextsBeyondTheContextWithBoundedPositions) {
  TinyEngine tiny(gqa_shape());  // a context of 512
  const auto ids = random_ids(700);
  for (const std::string& text : {"streaming_llm", "h2o:positions=rerotate"}) {
    const std::vector arms{arm_of(text, 700, true)};
    const auto whole = *tiny.engine.score(request_of(ids, 700), arms);
    expect_equal(whole[0], (*tiny.engine.score(request_of(ids, 64), arms))[0], text);
    // The engine's own choice, on an engine whose tables were never longer.
    TinyEngine fresh(gqa_shape());
    expect_equal(whole[0], (*fresh.engine.score(request_of(ids, 0), arms))[0], text);
  }
}

TEST(ScoreChunksOf, ReportTheirAdvance) {
  TinyEngine tiny(gqa_shape());
  const auto ids = random_ids(100);
  const std::vector arms{arm_of("h2o", 100, true)};
  std::vector<int> advanced;
  ScoreRequest request = request_of(ids, 48);
  request.advanced = [&](int n) { advanced.push_back(n); };
  (void)tiny.engine.score(request, arms);
  EXPECT_EQ(advanced, (std::vector<int>{0, 48, 48, 4}));
  advanced.clear();
  request.token_major = true;
  (void)tiny.engine.score(request, arms);
  EXPECT_EQ(advanced, (std::vector<int>{0, 100}));
}

TEST(ScoreChunksOf, StopBetweenChunksWithoutAResult) {
  TinyEngine tiny(gqa_shape());
  const auto ids = random_ids(kTokens);
  const std::vector arms{arm_of("h2o", kTokens, true)};
  ScoreRequest request = request_of(ids, 48);
  bool stop = false;
  request.advanced = [&](int n) { stop = n > 0; };
  EXPECT_FALSE(tiny.engine.score(request, arms, [&] { return stop; }).has_value());
  EXPECT_EQ(tiny.engine.pool_held_pages(), 0);
}

}  // namespace
}  // namespace kvscope
