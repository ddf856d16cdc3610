#include "runner/trace/trace_replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "runner/base/error.h"
#include "runner/conform/replay.h"
#include "runner/engine/rope_table.h"
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

// [heads first … first + n - 1][n_tokens][head_dim] of recorded rows.
std::vector<float> by_head(const Recorded& recorded, int index, int first, int n) {
  const AttentionShape shape = recorded.facts.shape();
  std::vector<float> out;
  for (int h = first; h < first + n; ++h) {
    for (int t = 0; t < recorded.facts.n_tokens; ++t) {
      const float* at = recorded.layers[std::size_t(index)].data() +
                        std::size_t(t) * shape.row_floats() + std::size_t(h) * shape.head_dim;
      out.insert(out.end(), at, at + shape.head_dim);
    }
  }
  return out;
}

// The recorded attention as a table and its contents, so that the policies' own code can be driven
// without kernels and engine.
std::vector<conform::SyntheticLayer> layers_of(const SeenRows& full, const Recorded& recorded) {
  const TraceFacts& facts = recorded.facts;
  std::vector<conform::SyntheticLayer> layers(std::size_t(facts.n_layers));
  for (int layer = 0; layer < facts.n_layers; ++layer) {
    conform::SyntheticLayer& to = layers[std::size_t(layer)];
    to.n_kv_heads = facts.n_kv_heads;
    to.table = conform::AttentionTable(facts.n_heads, facts.n_tokens);
    to.head_dim = facts.head_dim;
    to.queries = by_head(recorded, layer, 0, facts.n_heads);
    to.keys = by_head(recorded, layer, facts.n_heads, facts.n_kv_heads);
    to.values = by_head(recorded, layer, facts.n_heads + facts.n_kv_heads, facts.n_kv_heads);
    to.inverse_frequency = make_rope_table(facts.head_dim, facts.rope_theta, 1).inverse_frequency;
  }
  for (const SeenRows::Row& row : full.rows) {
    const int head = row.kv_head * facts.shape().group() + row.query_head;
    const float top = *std::max_element(row.logits.begin(), row.logits.end());
    for (std::size_t i = 0; i < row.logits.size(); ++i) {
      layers[std::size_t(row.layer)].table.at(head, row.position, int(i)) =
          std::exp(double(row.logits[i]) - double(top));
    }
  }
  return layers;
}

// Sets are compared, not sums: both drivers agree in which tokens stay although the kernels'
// float32 probabilities differ from the table's doubles in the last bits.
TEST_P(TraceReplays, EveryRowSeesWhatTheTableReplaySays) {
  constexpr int kShort = 150;
  TinyEngine tiny(GetParam());
  const Recorded recorded = record_all_layers(tiny, random_ids(kShort), 0);
  SeenRows full;
  TraceReplay(recorded.facts, *tiny.backend, {0, &full, {}}).run(recorded.reader());
  const auto layers = layers_of(full, recorded);
  for (const std::string text :
       {"sliding_window", "streaming_llm:sinks=2", "random:seed=3", "h2o", "h2o:norm=mean",
        "h2o:heads=summed", "tova", "tova:scope=head", "lru", "lru:use=topk", "scissorhands",
        "knorm", "keydiff", "snapkv:decode=window", "snapkv:decode=tova", "pyramidkv",
        "h2o+pyramid", "snapkv:decode=window+adakv", "h2o:prefill=streaming:chunk=7"}) {
    for (const int prompt : {0, kPrompt}) {
      if (prompt == 0 && !parse_policy(text).acts_in_stream()) continue;
      SeenRows arm;
      const auto policy = fit_for_replay(text, kBudget, recorded, prompt);
      ReplayRequest request{prompt, nullptr, {{policy, &arm}}};
      TraceReplay replay(recorded.facts, *tiny.backend, request);
      ASSERT_TRUE(replay.run(recorded.reader()));
      std::map<std::tuple<int, int, int>, const std::vector<std::int32_t>*> seen;
      for (const SeenRows::Row& row : arm.rows)
        seen[{row.layer, row.kv_head, row.position}] = &row.visible;
      conform::Replay by_table(policy, layers);
      if (prompt > 0) by_table.prompt(prompt);
      for (int t = prompt; t < kShort; ++t) {
        by_table.step(t);
        for (int layer = 0; layer < recorded.facts.n_layers; ++layer) {
          for (int h = 0; h < recorded.facts.n_kv_heads; ++h) {
            ASSERT_EQ(*seen.at({layer, h, t}), by_table.visible(h, layer))
                << text << " prompt " << prompt << " layer " << layer << " row " << t;
          }
        }
      }
      ASSERT_EQ(by_table.fault(), "") << text;
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
