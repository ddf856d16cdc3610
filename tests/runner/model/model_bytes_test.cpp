#include "runner/model/model_bytes.h"

#include <gtest/gtest.h>

#include "runner/model/gguf_model.h"
#include "runner/model/model.h"
#include "tests/runner/model/gguf_writer.h"
#include "tests/runner/model/memory_gguf.h"

namespace kvscope {
namespace {

ModelConfig smollm2_135m() {
  ModelConfig config;
  config.n_layers = 30;
  config.n_heads = 9;
  config.n_kv_heads = 3;
  config.head_dim = 64;
  config.d_model = 576;
  config.d_ff = 1536;
  config.n_vocab = 49152;
  return config;
}

TEST(ModelBytes, SmolLM2) {
  // 134,515,008 parameters, of which 35,136 in norms stay float32, and the tied table once more.
  const std::int64_t matrices = 134'515'008 - 35'136 + 49152 * 576;
  EXPECT_EQ(weight_bytes(smollm2_135m(), DType::kF32), 4 * matrices + 4 * 35'136);
  EXPECT_EQ(weight_bytes(smollm2_135m(), DType::kBF16), 2 * matrices + 4 * 35'136);
  EXPECT_EQ(sequence_bytes(smollm2_135m(), DType::kF32, 32), 32 * 46'080);
  EXPECT_EQ(sequence_bytes(smollm2_135m(), DType::kBF16, 33), 64 * 23'040);  // whole pages
  EXPECT_EQ(sequence_bytes(smollm2_135m(), DType::kF32, 0), 0);
}

TEST(ModelBytes, WhatALoadedModelHolds) {
  testing::GgufWriter writer;
  testing::TinyModelShape shape;
  shape.n_heads = 4;
  shape.d_model = 40;  // not n_heads · head_dim
  shape.tied_head = false;
  testing::add_llama_keys(writer, shape);
  testing::add_llama_tensors(writer, shape, 1);
  const auto source = open_gguf_model(testing::memory_gguf(writer.bytes()));
  const auto backend = make_cpu_backend(1);
  const Model model = load_model(*source, *backend, DType::kF32, DType::kF32);
  // Values of every matrix, counted one by one; the backend's own layout may be padded.
  std::int64_t values = std::int64_t(model.config.n_vocab) * model.config.d_model;  // embedding
  const auto count = [&](const PackedMatrix& m) { values += std::int64_t(m.n_out()) * m.n_in(); };
  count(*model.head);
  for (const LayerWeights& layer : model.layers) {
    count(*layer.qkv);
    count(*layer.output);
    count(*layer.gate_up);
    count(*layer.down);
    values += std::int64_t(layer.attention_norm.weight.size() + layer.mlp_norm.weight.size());
  }
  values += std::int64_t(model.final_norm.weight.size());
  EXPECT_EQ(weight_bytes(model.config, DType::kF32), 4 * values);
}

TEST(ModelBytes, TheBackendIsPartOfAModelsKeyUnlessItIsTheCpu) {
  Model model;
  model.config = smollm2_135m();
  const std::string cpu = model.key();
  model.backend = "cuda";
  EXPECT_NE(model.key(), cpu);
}

}  // namespace
}  // namespace kvscope
