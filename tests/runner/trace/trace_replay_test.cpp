#include "runner/trace/trace_replay.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runner/base/error.h"
#include "tests/runner/policies/replay.h"
#include "tests/runner/trace/recorded.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;

constexpr int kTokens = 300;  // of blocks of 128 rows
constexpr int kPrompt = 60;
constexpr int kBudget = 20;

class TraceReplays : public ::testing::TestWithParam<TinyModelShape> {};
INSTANTIATE_TEST_SUITE_P(All, TraceReplays,
                         ::testing::Values(gqa_shape(), mha_shape(), mqa_shape()),
                         [](const auto& param) {
                           return std::to_string(param.param.n_heads) + "x" +
                                  std::to_string(param.param.n_kv_heads);
                         });

// Layer 0's inputs are the embeddings, which no eviction changes: there a live run is the replay.
void expect_layer_0_as_live(TinyEngine& tiny, const Recorded& recorded,
                            const std::vector<std::int32_t>& ids,
                            const std::vector<std::string>& texts, int prompt) {
  ReplayRequest request{prompt, nullptr, {}};
  std::vector<ScoreArm> arms;
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    const auto policy = fit_for_replay(text, kBudget, recorded, prompt);
    if (policy == nullptr) continue;
    request.arms.push_back({policy});
    arms.push_back({policy, nullptr, prompt == 0});
    names.push_back(text);
  }
  ASSERT_GT(arms.size(), 10U);
  ScoreRequest live;
  live.tokens = ids;
  live.prompt_tokens = prompt;
  live.first_scored = int(ids.size());
  live.want_residents = true;
  const auto results = *tiny.engine.score(live, arms);
  TraceReplay replay(recorded.facts, *tiny.backend, request);
  ASSERT_TRUE(replay.run(recorded.reader()));
  for (std::size_t i = 0; i < arms.size(); ++i) {
    for (int h = 0; h < recorded.facts.n_kv_heads; ++h)
      EXPECT_EQ(replay.residents(i, 0, h), results[i].resident_positions[std::size_t(h)])
          << names[i] << " head " << h;
  }
}

TEST_P(TraceReplays, KeptSetsOfLayer0AreThoseOfTheLiveRun) {
  TinyEngine tiny(GetParam(), 2);
  const auto ids = random_ids(kTokens);
  const Recorded recorded = record_all_layers(tiny, ids, kPrompt);
  ASSERT_TRUE(recorded.facts.has_all_layers());
  expect_layer_0_as_live(tiny, recorded, ids, in_stream_policies(), 0);
  // A cascade's total covers layers whose inputs an eviction does change.
  std::vector<std::string> texts = prompt_policies();
  std::erase_if(texts, [](const std::string& text) { return text.find("cake") < text.size(); });
  expect_layer_0_as_live(tiny, recorded, ids, texts, kPrompt);
}

TEST(TraceReplay, ReplaysInTheFormatThatKeysAndValuesHad) {
  TinyEngine tiny(gqa_shape(), 2, DType::kF32, DType::kBF16);
  const auto ids = random_ids(kTokens);
  const Recorded recorded = record_all_layers(tiny, ids, kPrompt);
  expect_layer_0_as_live(tiny, recorded, ids, in_stream_policies(), 0);
}

TEST_P(TraceReplays, DensePromptCutsAreThoseOfTheLiveRunInEveryLayer) {
  TinyEngine tiny(GetParam());
  // One row after the prompt: a monolithic prompt is the full run's in every layer.
  const auto ids = random_ids(kPrompt + 1);
  const Recorded recorded = record_all_layers(tiny, ids, kPrompt);
  ReplayRequest request{kPrompt, nullptr, {}};
  std::vector<ScoreArm> arms;
  for (const char* text : {"snapkv", "cake:decode=grow", "snapkv+pyramid", "snapkv+adakv",
                           "h2o:decode=grow", "expected_attention"}) {
    const auto policy = fit_for_replay(text, kBudget, recorded, kPrompt);
    ASSERT_NE(policy, nullptr) << text;
    request.arms.push_back({policy});
    arms.push_back({policy, nullptr, false});
  }
  ScoreRequest live;
  live.tokens = ids;
  live.prompt_tokens = kPrompt;
  live.want_residents = true;
  const auto results = *tiny.engine.score(live, arms);
  TraceReplay replay(recorded.facts, *tiny.backend, request);
  ASSERT_TRUE(replay.run(recorded.reader()));
  const int n_kv_heads = recorded.facts.n_kv_heads;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    for (int layer = 0; layer < recorded.facts.n_layers; ++layer) {
      for (int h = 0; h < n_kv_heads; ++h) {
        EXPECT_EQ(replay.residents(i, std::size_t(layer), h),
                  results[i].resident_positions[std::size_t(layer * n_kv_heads + h)])
            << i << " layer " << layer << " head " << h;
      }
    }
  }
}

TEST_P(TraceReplays, ABudgetThatHoldsEverythingSeesTheFullRun) {
  TinyEngine tiny(GetParam());
  const Recorded recorded = record_all_layers(tiny, random_ids(90), 0);
  SeenRows full;
  SeenRows arm;
  ReplayRequest request{0, &full, {{fit_for_replay("h2o", 90, recorded, 0), &arm}}};
  TraceReplay replay(recorded.facts, *tiny.backend, request);
  ASSERT_TRUE(replay.run(recorded.reader()));
  ASSERT_EQ(full.rows.size(), arm.rows.size());
  for (std::size_t i = 0; i < full.rows.size(); ++i) {
    EXPECT_EQ(full.rows[i].visible, arm.rows[i].visible);
    expect_same_bits(full.rows[i].logits, arm.rows[i].logits, "row");
  }
}

// The recorded attention as a table, so that the policies' own code can be driven without kernels.
AttentionTable table_of(const SeenRows& full, const TraceFacts& facts, int layer) {
  AttentionTable table(facts.n_heads, facts.n_tokens);
  for (const SeenRows::Row& row : full.rows) {
    if (row.layer != layer) continue;
    const int head = row.kv_head * facts.shape().group() + row.query_head;
    const float top = *std::max_element(row.logits.begin(), row.logits.end());
    for (std::size_t i = 0; i < row.logits.size(); ++i)
      table.at(head, row.position, int(i)) = std::exp(double(row.logits[i]) - double(top));
  }
  return table;
}

// Sets are compared, not sums: two policies' code paths agree in which tokens stay although the
// kernels' float32 probabilities differ from the table's doubles in the last bits.
TEST_P(TraceReplays, EveryRowSeesWhatTheTableReplaySays) {
  constexpr int kShort = 150;
  TinyEngine tiny(GetParam());
  const Recorded recorded = record_all_layers(tiny, random_ids(kShort), 0);
  SeenRows full;
  TraceReplay(recorded.facts, *tiny.backend, {0, &full, {}}).run(recorded.reader());
  const int n_kv_heads = recorded.facts.n_kv_heads;
  for (const std::string text :
       {"sliding_window", "streaming_llm:sinks=2", "random:seed=3", "h2o", "h2o:norm=mean",
        "h2o:heads=summed", "tova", "tova:scope=head", "lru", "lru:use=topk", "scissorhands",
        "snapkv:decode=window", "snapkv:decode=tova", "h2o:prefill=streaming:chunk=7"}) {
    for (const int prompt : {0, kPrompt}) {
      if (prompt == 0 && !parse_policy(text).acts_in_stream()) continue;
      SeenRows arm;
      const auto policy = fit_for_replay(text, kBudget, recorded, prompt);
      // The table replay's dense prompt gives sums, not row by row.
      if (prompt > 0 && policy->prompt_need().replay_rows > 0) continue;
      ReplayRequest request{prompt, nullptr, {{policy, &arm}}};
      TraceReplay replay(recorded.facts, *tiny.backend, request);
      ASSERT_TRUE(replay.run(recorded.reader()));
      for (int layer = 0; layer < recorded.facts.n_layers; ++layer) {
        const AttentionTable table = table_of(full, recorded.facts, layer);
        Replay by_table(policy, table, n_kv_heads, layer);
        if (prompt > 0) by_table.prompt(prompt);
        std::vector<std::vector<Positions>> wanted;  // [row][kv_head]
        for (int t = prompt; t < kShort; ++t) {
          by_table.step(t);
          wanted.emplace_back();
          for (int h = 0; h < n_kv_heads; ++h) {
            wanted.back().push_back(by_table.visible(h));
            std::sort(wanted.back().back().begin(), wanted.back().back().end());
          }
        }
        for (const SeenRows::Row& row : arm.rows) {
          if (row.layer != layer) continue;
          ASSERT_EQ(row.visible,
                    wanted[std::size_t(row.position - prompt)][std::size_t(row.kv_head)])
              << text << " prompt " << prompt << " layer " << layer << " row " << row.position;
        }
      }
    }
  }
}

TEST(TraceReplay, RefusesWhatAReplayIsNotDefinedFor) {
  TinyEngine tiny(gqa_shape());
  Recorded recorded = record_all_layers(tiny, random_ids(40), 30);
  const auto refusal = [&](const char* text) -> std::string {
    try {
      fit_replay_policy(parse_policy(text), {{.permille = {}, .tokens = 10}, 30, false},
                        recorded.facts);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("h2o+kv_int8").find("storage"), std::string::npos);
  EXPECT_NE(refusal("quest").find("evicts nothing"), std::string::npos);
  EXPECT_NE(refusal("snapkv+minference").find("sparse"), std::string::npos);
  EXPECT_EQ(refusal("cake"), "");
  recorded.facts.layers = {0};
  EXPECT_NE(refusal("cake").find("--layers all"), std::string::npos);
  EXPECT_EQ(refusal("pyramidkv"), "");
  EXPECT_EQ(refusal("streaming_llm"), "");
}

}  // namespace
}  // namespace kvscope
