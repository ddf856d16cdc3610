#include "runner/model/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "runner/base/error.h"
#include "runner/model/model.h"

namespace kvscope {
namespace {

ModelConfig shape() {
  ModelConfig config;
  config.name = "random";
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  config.d_model = 33;  // odd: the last value of a row has a hash of its own
  config.d_ff = 48;
  config.n_vocab = 320;
  config.context_length = 512;
  config.tied_head = false;
  return config;
}

TEST(RandomWeights, RowsAreTheSameHoweverTheyAreRead) {
  const RandomWeights weights(shape(), 7);
  const std::vector<float> all = weights.read("blk.1.ffn_up.weight", 48, 33);
  std::vector<float> part(3 * 33);
  weights.read_rows("blk.1.ffn_up.weight", 48, 33, 20, 3, part.data());
  for (int i = 0; i < 3 * 33; ++i) EXPECT_EQ(part[i], all[20 * 33 + i]);
  EXPECT_EQ(RandomWeights(shape(), 7).read("blk.1.ffn_up.weight", 48, 33), all);
  EXPECT_NE(RandomWeights(shape(), 8).read("blk.1.ffn_up.weight", 48, 33), all);
  EXPECT_NE(weights.read("blk.0.ffn_up.weight", 48, 33), all);
  // As they are on every machine.
  EXPECT_EQ(weights.read("token_embd.weight", 320, 33)[0], -0.296924889F);
}

TEST(RandomWeights, ValuesHaveTheirVariance) {
  const RandomWeights weights(shape(), 1);
  const auto moments = [](const std::vector<float>& values) {
    double sum = 0, squares = 0;
    for (const float v : values) sum += v, squares += double(v) * v;
    const double mean = sum / double(values.size());
    return std::pair(mean, squares / double(values.size()) - mean * mean);
  };
  const auto [mean, variance] = moments(weights.read("token_embd.weight", 320, 33));
  // 10,560 values: the mean's standard deviation is 0.0025, the variance's relative one 0.9 %.
  EXPECT_NEAR(mean, 0.0, 0.01);
  EXPECT_NEAR(variance, 1.5 * 1.5 / 33, 0.04 * 1.5 * 1.5 / 33);
  for (const float v : weights.read("output_norm.weight", 1, 33)) EXPECT_NEAR(v, 1.0F, 0.2F);
}

TEST(RandomWeights, OnlyWhatTheArchitectureHas) {
  const RandomWeights weights(shape(), 1);
  EXPECT_THROW(weights.read("blk.2.ffn_up.weight", 48, 33), DataError);
  EXPECT_THROW(weights.read("blk.1.ffn_up.weight", 33, 48), DataError);
  EXPECT_TRUE(weights.has("output.weight"));
  ModelConfig tied = shape();
  tied.tied_head = true;
  EXPECT_FALSE(RandomWeights(tied, 1).has("output.weight"));
  EXPECT_NE(RandomWeights(tied, 1).sha256(), weights.sha256());
  EXPECT_NE(RandomWeights(shape(), 2).sha256(), weights.sha256());
}

TEST(RandomWeights, MakeAModelThatLoads) {
  const auto backend = make_cpu_backend(1);
  const Model model = load_model(RandomWeights(shape(), 1), *backend, DType::kBF16, DType::kBF16);
  EXPECT_EQ(model.layers.size(), 2U);
  EXPECT_EQ(model.head->n_out(), 320);
}

}  // namespace
}  // namespace kvscope
