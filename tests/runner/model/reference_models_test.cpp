// Tiny models of every architecture, as a folder and as GGUF, against what transformers computes of
// them (tests/reference/make_reference.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runner/engine/layer_pass.h"
#include "runner/engine/rope_table.h"
#include "runner/model/folder_model.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using testing::expect_same_bits;

std::filesystem::path models() {
  return std::filesystem::path(KVSCOPE_SOURCE_DIR) / "tests/reference/models";
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(models()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<float> read_floats(const std::filesystem::path& path) {
  std::vector<float> values(std::filesystem::file_size(path) / sizeof(float));
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), std::streamsize(values.size() * sizeof(float)));
  return values;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float largest = 0.0F;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN stays
  }
  return largest;
}

struct Computed {
  std::vector<float> logits;  // [tokens][n_vocab]
  std::vector<float> kv;  // [2][n_kv_heads][tokens][head_dim] of the last layer, as the reference
};

// Keys after RoPE, in the order that transformers keeps a head's dimensions in.
void read_kv(const EngineContext& context, std::span<const float> qkv, int n_tokens,
             std::vector<float>& out) {
  const ModelConfig& c = context.model.config;
  const AttentionShape shape = context.model.attention_shape(c.n_layers - 1);
  const RopeTable& rope = context.rope_of(c.n_layers - 1);
  const int d = c.head_dim;
  const int rotary = c.form.learned_positions ? 0 : c.rotary_dim > 0 ? c.rotary_dim : d;
  const std::size_t half = std::size_t(c.n_kv_heads) * n_tokens * d;
  out.resize(2 * half);
  std::vector<float> turned(d);
  for (int h = 0; h < c.n_kv_heads; ++h) {
    for (int t = 0; t < n_tokens; ++t) {
      const float* row = qkv.data() + t * shape.row_floats();
      rotate_to(rope, row + (c.n_heads + h) * d, t, turned.data());
      const std::size_t at = (std::size_t(h) * n_tokens + t) * d;
      for (int i = 0; i < d; ++i) {
        const int to = i < rotary ? i / 2 + (i % 2) * rotary / 2 : i;
        out[at + to] = turned[i];
      }
      std::copy_n(row + (c.n_heads + c.n_kv_heads + h) * d, d, out.begin() + half + at);
    }
  }
}

Computed compute(const std::filesystem::path& path, const std::vector<std::int32_t>& ids) {
  const auto backend = make_cpu_backend(1);
  const Model model = load_model(*open_model_source(path), *backend, DType::kF32, DType::kF32);
  EngineContext context(model, *backend);
  Forward forward(model, *backend);
  context.cover_positions(int(ids.size()));
  Computed computed;
  PassRequest request{ids, 0, true};
  request.full_rows = [&](int layer, std::span<const float> qkv) {
    if (layer == model.config.n_layers - 1) read_kv(context, qkv, int(ids.size()), computed.kv);
  };
  LayerPass pass(context, forward, request, {});
  EXPECT_TRUE(pass.run({}));
  computed.logits.resize(ids.size() * model.config.n_vocab);
  forward.logits(pass.dense_hidden(), int(ids.size()), computed.logits);
  return computed;
}

class ReferenceModel : public ::testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder = models() / GetParam();
  std::vector<std::int32_t> ids() const {
    std::ifstream in(folder / "reference.json");
    return nlohmann::json::parse(in)["ids"].get<std::vector<std::int32_t>>();
  }
  bool has_gguf() const { return std::filesystem::exists(folder / "model.gguf"); }
};

// Logits lie within ±32.
constexpr float kTolerance = 1e-4F;

TEST_P(ReferenceModel, FolderComputesWhatTransformersDoes) {
  const Computed computed = compute(folder, ids());
  EXPECT_LE(largest_difference(computed.logits, read_floats(folder / "logits.f32")), kTolerance);
  EXPECT_LE(largest_difference(computed.kv, read_floats(folder / "kv.f32")), kTolerance);
}

TEST_P(ReferenceModel, GgufGivesTheSameBitsAsTheFolder) {
  if (!has_gguf()) GTEST_SKIP() << "this architecture has no GGUF form";
  const Computed gguf = compute(folder / "model.gguf", ids());
  EXPECT_LE(largest_difference(gguf.logits, read_floats(folder / "logits.f32")), kTolerance);
  const Computed both = compute(folder, ids());
  expect_same_bits(gguf.logits, both.logits, GetParam());
  expect_same_bits(gguf.kv, both.kv, GetParam());
}

// Every policy, by layers and token by token: windows, two bases, learned positions included.
TEST_P(ReferenceModel, PoliciesGiveTheSameBitsBothWays) {
  const auto backend = make_cpu_backend(1);
  const Model model = load_model(*open_model_source(folder), *backend, DType::kF32, DType::kF32);
  Engine engine(model, *backend);
  const std::vector<std::int32_t> tokens = ids();
  for (const std::string& text : testing::in_stream_policies()) {
    const auto policy = testing::fit(text, 12, int(tokens.size()), true);
    if (model.config.form.learned_positions && policy->positions() != PositionMode::kAbsolute) {
      EXPECT_THROW(require_suited(*policy, model.config), std::exception) << text;
      continue;
    }
    if (text.find("kivi") != std::string::npos) continue;  // wants wider heads
    const ScoreArm arm{policy};
    ScoreRequest request{tokens};
    const auto by_layers = engine.score(request, {&arm, 1});
    request.token_major = true;
    const auto by_tokens = engine.score(request, {&arm, 1});
    ASSERT_TRUE(by_layers && by_tokens) << text;
    testing::expect_same(by_layers->front(), by_tokens->front(), GetParam() + " " + text);
    EXPECT_TRUE(std::isfinite(by_layers->front().nll_nats.back())) << text;
  }
}

// A budget that evicts nothing leaves full attention, window and all, whichever path computes it.
TEST_P(ReferenceModel, ABudgetOfEverythingIsFull) {
  const auto backend = make_cpu_backend(1);
  const Model model = load_model(*open_model_source(folder), *backend, DType::kF32, DType::kF32);
  Engine engine(model, *backend);
  const std::vector<std::int32_t> tokens = ids();
  const ScoreRequest request{tokens};
  const ScoreArm full{testing::fit("full", 0, int(tokens.size()), true)};
  const auto expected = engine.score(request, {&full, 1});
  for (const char* text : {"h2o", "tova", "sliding_window", "lru"}) {
    const ScoreArm arm{testing::fit(text, int(tokens.size()), int(tokens.size()), true)};
    const auto result = engine.score(request, {&arm, 1});
    expect_same_bits(result->front().nll_nats, expected->front().nll_nats, text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceModel, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  for (char& letter : name)
    letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return name;
});

// A token that has left the window changes nothing that comes later, under any policy that keeps
// it.
TEST(SlidingWindow, WhatLeftItIsNotSeen) {
  const auto backend = make_cpu_backend(1);
  const Model model =
      load_model(*open_model_source(models() / "mistral"), *backend, DType::kF32, DType::kF32);
  ASSERT_EQ(model.config.window, 7);
  Engine engine(model, *backend);
  std::vector<std::int32_t> tokens = testing::random_ids(80);
  for (std::int32_t& id : tokens) id %= 96;
  std::vector<std::int32_t> others = tokens;
  others[1] = (others[1] + 40) % 96;
  // Two layers: what a token hands on reaches twice the window.
  const int reach = 1 + 2 * (model.config.window - 1);
  for (const char* text : {"full", "streaming_llm:positions=absolute", "h2o", "snapkv",
                           "quest:page=4", "full+minference:pattern=a_shape:n_init=2:n_local=8"}) {
    const bool prompted = std::string_view(text).find("snapkv") == 0 ||
                          std::string_view(text).find("minference") != std::string_view::npos;
    ScoreArm arm{testing::fit(text, 60, prompted ? 70 : 80, !prompted)};
    arm.in_stream = !prompted;
    ScoreRequest request{tokens};
    if (prompted) request.prompt_tokens = 70;
    const auto a = engine.score(request, {&arm, 1});
    request.tokens = others;
    const auto b = engine.score(request, {&arm, 1});
    const auto& x = a->front().nll_nats;
    const auto& y = b->front().nll_nats;
    EXPECT_NE(x[2], y[2]) << text;
    // What h2o evicts first depends on weights of the past; another order of slots is another order
    // of sums.
    const double tolerance = std::string_view(text) == "h2o" ? 1e-5 : 0.0;
    for (std::size_t t = std::size_t(1 + reach + 1); t < x.size(); ++t)
      ASSERT_NEAR(x[t], y[t], tolerance) << text << " at " << t;
  }
}

}  // namespace
}  // namespace kvscope
