#include "runner/backend/cpu/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runner/backend/cpu/embedding.h"
#include "runner/base/half.h"

namespace kvscope::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_floats(std::size_t n, float scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(generator);
  return values;
}

TEST(RmsNorm, LiteralRow) {
  ThreadPool pool(1);
  const std::vector<float> x{3, 4};  // mean of squares 12.5
  const std::vector<float> weight{2, 1};
  std::vector<float> y(2);
  rms_norm(pool, x.data(), weight, 0.0F, 1, y.data());
  EXPECT_FLOAT_EQ(y[0], 1.6970563F);
  EXPECT_FLOAT_EQ(y[1], 1.1313709F);
  rms_norm(pool, x.data(), weight, 12.5F, 1, y.data());
  EXPECT_FLOAT_EQ(y[0], 1.2F);
  EXPECT_FLOAT_EQ(y[1], 0.8F);
}

TEST(Swiglu, LiteralRowAndExtremes) {
  ThreadPool pool(1);
  const std::vector<float> gate_up{0, 1, -1, 200, -200, /*up*/ 5, 2, 3, 1, 1};
  std::vector<float> y(5);
  swiglu(pool, gate_up.data(), 1, 5, y.data());
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_FLOAT_EQ(y[1], 1.4621172F);
  EXPECT_FLOAT_EQ(y[2], -0.8068243F);
  EXPECT_EQ(y[3], 200.0F);
  EXPECT_EQ(y[4], 0.0F);
}

TEST(LayerNorm, LiteralRow) {
  ThreadPool pool(1);
  const std::vector<float> x{1, 2, 3, 4};  // mean 2.5, variance 1.25
  const std::vector<float> weight{1, 1, 2, 1};
  const std::vector<float> bias{0, 0, 0, 10};
  std::vector<float> y(4);
  layer_norm(pool, x.data(), weight, bias, 0.0F, 1, y.data());
  EXPECT_FLOAT_EQ(y[0], -1.3416408F);
  EXPECT_FLOAT_EQ(y[1], -0.4472136F);
  EXPECT_FLOAT_EQ(y[2], 0.8944272F);
  EXPECT_FLOAT_EQ(y[3], 11.3416408F);
  layer_norm(pool, x.data(), weight, bias, 1.0F, 1, y.data());  // sqrt(2.25)
  EXPECT_FLOAT_EQ(y[0], -1.0F);
}

TEST(AddBias, EveryRow) {
  ThreadPool pool(2);
  const std::vector<float> bias{1, -2, 0.5F};
  std::vector<float> y{0, 0, 0, 10, 20, 30};
  add_bias(pool, bias, 2, y.data());
  EXPECT_EQ(y, (std::vector<float>{1, -2, 0.5F, 11, 18, 30.5F}));
}

// Each head by itself, queries and keys by their own weights, values untouched.
TEST(NormHeads, LiteralRow) {
  ThreadPool pool(1);
  const AttentionShape shape{2, 1, 2};
  const std::vector<float> query_weight{2, 1};
  const std::vector<float> key_weight{1, 10};
  std::vector<float> qkv{3, 4, 0, 2, -3, 4, 7, 8};  // two queries, a key, a value
  norm_heads(pool, shape, query_weight, key_weight, 0.0F, 1, qkv.data());
  const std::vector<float> expected{1.6970563F,  1.1313709F, 0, 1.4142135F,
                                    -0.8485281F, 11.313709F, 7, 8};
  for (std::size_t i = 0; i < qkv.size(); ++i) EXPECT_FLOAT_EQ(qkv[i], expected[i]) << i;
}

TEST(Activate, LiteralValuesAndExtremes) {
  ThreadPool pool(1);
  const auto of = [&](Activation activation, std::vector<float> x) {
    std::vector<float> y(is_gated(activation) ? x.size() / 2 : x.size());
    activate(pool, activation, x.data(), 1, int(y.size()), y.data());
    return y;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto relu = of(Activation::kRelu, {-2, 0, 3, nan});
  EXPECT_EQ(relu[0], 0.0F);
  EXPECT_EQ(relu[2], 3.0F);
  EXPECT_TRUE(std::isnan(relu[3]));
  const auto gelu = of(Activation::kGelu, {1, -1, 0, 50, -50});
  EXPECT_FLOAT_EQ(gelu[0], 0.8413447F);
  EXPECT_FLOAT_EQ(gelu[1], -0.15865526F);
  EXPECT_EQ(gelu[2], 0.0F);
  EXPECT_EQ(gelu[3], 50.0F);
  EXPECT_EQ(gelu[4], 0.0F);
  const auto tanh = of(Activation::kGeluTanh, {1, -1, 0, 50, -50, nan});
  EXPECT_FLOAT_EQ(tanh[0], 0.841192F);
  EXPECT_FLOAT_EQ(tanh[1], -0.158808F);
  EXPECT_EQ(tanh[2], 0.0F);
  EXPECT_EQ(tanh[3], 50.0F);
  EXPECT_EQ(tanh[4], 0.0F);
  EXPECT_TRUE(std::isnan(tanh[5]));
  const auto geglu = of(Activation::kGeGluTanh, {1, -1, /*up*/ 2, 10});
  EXPECT_FLOAT_EQ(geglu[0], 1.682384F);
  EXPECT_FLOAT_EQ(geglu[1], -1.58808F);
}

// Measured worst relative error over these rows: 1.8e-7, three units of 2^-24.
TEST(Swiglu, CloseToExactArithmetic) {
  constexpr int kRows = 40;
  constexpr int kWidth = 1536;
  ThreadPool pool(2);
  const auto x = random_floats(std::size_t(2) * kRows * kWidth, 6.0F, 1);
  std::vector<float> y(std::size_t(kRows) * kWidth);
  swiglu(pool, x.data(), kRows, kWidth, y.data());
  double worst = 0;
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kWidth; ++i) {
      const long double g = x[std::size_t(2 * r) * kWidth + i];
      const long double u = x[std::size_t(2 * r + 1) * kWidth + i];
      const long double exact = g / (1 + std::exp(-g)) * u;
      worst = std::max(worst, double(std::abs((y[std::size_t(r) * kWidth + i] - exact) / exact)));
    }
  }
  EXPECT_LT(worst, 4e-7);
}

TEST(LogSumExp, LiteralRows) {
  ThreadPool pool(1);
  const std::vector<float> logits{0, 0, 0, 0, 1000, 1001, 1002, 1003};
  std::vector<double> lse(2);
  log_sum_exp(pool, logits.data(), 2, 4, lse.data());
  EXPECT_NEAR(lse[0], 1.3862943611198906, 1e-7);
  EXPECT_NEAR(lse[1], 1003.4401896985611, 1e-7);
}

TEST(LogSumExp, NotFinite) {
  ThreadPool pool(1);
  for (const std::size_t where : {0, 7, 18}) {  // in a whole vector and in the rest
    std::vector<float> row(19, -kInfinity);
    double lse = 0;
    log_sum_exp(pool, row.data(), 1, row.size(), &lse);
    EXPECT_EQ(lse, -INFINITY);
    row[where] = 2.0F;
    log_sum_exp(pool, row.data(), 1, row.size(), &lse);
    EXPECT_EQ(lse, 2.0);
    row[where] = NAN;
    log_sum_exp(pool, row.data(), 1, row.size(), &lse);
    EXPECT_TRUE(std::isnan(lse)) << where;
    row[where] = kInfinity;
    log_sum_exp(pool, row.data(), 1, row.size(), &lse);
    EXPECT_EQ(lse, INFINITY);
  }
}

// Measured worst error against long double: 2.5e-8.
TEST(LogSumExp, CloseToExactArithmetic) {
  constexpr int kRows = 20;
  constexpr std::size_t kVocabulary = 49152;
  ThreadPool pool(2);
  double worst = 0;
  for (const float scale : {0.5F, 3.0F, 12.0F}) {
    const auto logits = random_floats(kRows * kVocabulary, scale, 2);
    std::vector<double> lse(kRows);
    log_sum_exp(pool, logits.data(), kRows, kVocabulary, lse.data());
    for (int r = 0; r < kRows; ++r) {
      long double sum = 0;
      for (std::size_t i = 0; i < kVocabulary; ++i)
        sum += std::exp((long double)logits[r * kVocabulary + i]);
      worst = std::max(worst, std::abs(lse[r] - double(std::log(sum))));
    }
  }
  EXPECT_LT(worst, 1e-7);
}

TEST(Add, AddsEveryElement) {
  ThreadPool pool(3);
  const auto x = random_floats(100'003, 1.0F, 3);
  const auto before = random_floats(x.size(), 1.0F, 4);
  auto y = before;
  add(pool, x, y.data());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], before[i] + x[i]) << i;
}

TEST(RoundToBf16, AgreesWithTheScalarRule) {
  ThreadPool pool(2);
  auto x = random_floats(50'007, 1.0F, 5);
  const float special[] = {0.0F,   -0.0F,         kInfinity,   -kInfinity,
                           1e-40F, 3.4028234e38F, 1.00390625F, 1.01171875F};
  std::copy(std::begin(special), std::end(special), x.begin());
  x[8] = NAN;
  std::vector<std::uint16_t> y(x.size());
  round_to_bf16(pool, x, y.data());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], bf16_bits(x[i])) << i << " " << x[i];
  EXPECT_EQ(y[6], 0x3f80);  // halfway: to the even neighbour below
  EXPECT_EQ(y[7], 0x3f82);  // halfway: to the even neighbour above
}

// A row's bits with any number of rows, any thread count and at any position are those it has
// alone.
TEST(Elementwise, RowsAreStable) {
  constexpr int kRows = 70;
  constexpr int kWidth = 577;
  const auto x = random_floats(std::size_t(kRows) * 2 * kWidth, 4.0F, 6);
  const auto weight = random_floats(kWidth, 1.0F, 7);
  ThreadPool alone(1);
  for (const int n_threads : {1, 2, 3}) {
    ThreadPool pool(n_threads);
    for (const int rows : {1, 2, 17, kRows}) {
      std::vector<float> norm(std::size_t(rows) * kWidth), gated(norm.size()), row(kWidth);
      std::vector<double> lse(rows);
      const int first = kRows - rows;
      const float* narrow = &x[std::size_t(first) * kWidth];
      const float* wide = &x[std::size_t(first) * 2 * kWidth];
      rms_norm(pool, narrow, weight, 1e-5F, rows, norm.data());
      swiglu(pool, wide, rows, kWidth, gated.data());
      log_sum_exp(pool, narrow, rows, kWidth, lse.data());
      for (int r = 0; r < rows; ++r) {
        const std::size_t at = std::size_t(r) * kWidth;
        rms_norm(alone, narrow + at, weight, 1e-5F, 1, row.data());
        ASSERT_EQ(0, std::memcmp(row.data(), &norm[at], kWidth * sizeof(float)));
        swiglu(alone, wide + 2 * at, 1, kWidth, row.data());
        ASSERT_EQ(0, std::memcmp(row.data(), &gated[at], kWidth * sizeof(float)));
        double one = 0;
        log_sum_exp(alone, narrow + at, 1, kWidth, &one);
        ASSERT_EQ(one, lse[r]);
      }
    }
  }
}

TEST(Embedding, LooksUpRowsInEveryType) {
  ThreadPool pool(2);
  const std::vector<float> table{1, 2, 3.14159265F, 4, 65536, -6};  // [3][2]
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(i % 3);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const CpuEmbedding embedding(pool, rows_of(table, 2), 3, 2, dtype);
    std::vector<float> out(ids.size() * 2);
    embedding.lookup(pool, ids, out.data());
    const float pi = dtype == DType::kF32 ? 3.14159265F : 3.140625F;
    const float large = dtype == DType::kF16 ? kInfinity : 65536.0F;
    for (std::size_t i = 0; i + 2 < ids.size(); i += 3) {
      EXPECT_EQ(std::vector<float>(&out[2 * i], &out[2 * i] + 6),
                (std::vector<float>{1, 2, pi, 4, large, -6}))
          << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace kvscope::cpu
