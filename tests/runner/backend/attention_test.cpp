// CPU attention against plain loops in double, and its promises about bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runner/backend/cpu/attention.h"
#include "runner/base/half.h"
#include "runner/base/splitmix.h"
#include "runner/engine/rope_table.h"

namespace kvscope {
namespace {

struct Rows {
  AttentionShape shape;
  std::vector<float> qkv;  // [n][row_floats]
  int n = 0;
  Rows(AttentionShape s, int rows, std::uint64_t seed)
      : shape(s), qkv(rows * s.row_floats()), n(rows) {
    for (std::size_t i = 0; i < qkv.size(); ++i) {
      qkv[i] = float(double(smix(smix(seed) ^ i) >> 11) * 0x1p-52 - 1.0) * 2.0F;
    }
  }
  std::span<const float> part(int row, int which, int head) const {  // 0 query, 1 key, 2 value
    const int first = which == 0   ? 0
                      : which == 1 ? shape.n_heads
                                   : shape.n_heads + shape.n_kv_heads;
    return std::span(qkv).subspan(
        row * shape.row_floats() + std::size_t(first + head) * shape.head_dim, shape.head_dim);
  }
};

std::vector<double> rotated(std::span<const float> x, int position, double theta) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size() / 2; ++i) {
    const double angle =
        double(float(position) * float(1.0 / std::pow(theta, 2.0 * double(i) / double(x.size()))));
    y[2 * i] = x[2 * i] * std::cos(angle) - x[2 * i + 1] * std::sin(angle);
    y[2 * i + 1] = x[2 * i] * std::sin(angle) + x[2 * i + 1] * std::cos(angle);
  }
  return y;
}

// Weights of row t of query head h over all rows ≤ t.
std::vector<double> weights(const Rows& rows, int t, int h, double theta) {
  const auto q = rotated(rows.part(t, 0, h), t, theta);
  std::vector<double> a(t + 1);
  double sum = 0.0;
  for (int u = 0; u <= t; ++u) {
    const auto k = rotated(rows.part(u, 1, h / rows.shape.group()), u, theta);
    double z = 0.0;
    for (std::size_t i = 0; i < k.size(); ++i) z += q[i] * k[i];
    sum += a[u] = std::exp(z / std::sqrt(double(rows.shape.head_dim)));
  }
  for (double& x : a) x /= sum;
  return a;
}

constexpr double kTheta = 10000.0;

struct Dense {
  PagePool pool;
  std::vector<HeadCache> heads;
  std::vector<float> out;
  std::vector<float> lse;
  Dense(const Rows& rows, ThreadPool& threads, const RopeTable& rope, DType dtype = DType::kF32)
      : pool({rows.shape.head_dim, dtype, true}),
        heads(rows.shape.n_kv_heads, HeadCache(&pool)),
        out(std::size_t(rows.n) * rows.shape.n_heads * rows.shape.head_dim),
        lse(std::size_t(rows.n) * rows.shape.n_heads) {
    cpu::attend_dense(threads, rows.shape, rope,
                      {heads.data(), rows.qkv.data(), out.data(), rows.n, 0, lse.data()});
  }
};

class Attention : public ::testing::TestWithParam<AttentionShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         ::testing::Values(AttentionShape{9, 3, 64}, AttentionShape{4, 4, 8},
                                           AttentionShape{5, 1, 20}, AttentionShape{8, 2, 128}),
                         [](const auto& p) {
                           return std::to_string(p.param.n_heads) + "_" +
                                  std::to_string(p.param.n_kv_heads) + "_" +
                                  std::to_string(p.param.head_dim);
                         });

TEST_P(Attention, DenseEqualsPlainLoops) {
  const Rows rows(GetParam(), 100, 1);
  ThreadPool threads(2);
  const RopeTable rope = make_rope_table(rows.shape.head_dim, kTheta, 128);
  const Dense dense(rows, threads, rope);
  double worst = 0.0;
  for (int t : {0, 1, 31, 32, 33, 63, 64, 99}) {
    for (int h = 0; h < rows.shape.n_heads; ++h) {
      const auto a = weights(rows, t, h, kTheta);
      for (int i = 0; i < rows.shape.head_dim; ++i) {
        double o = 0.0;
        for (int u = 0; u <= t; ++u) o += a[u] * rows.part(u, 2, h / rows.shape.group())[i];
        const std::size_t at = (std::size_t(t) * rows.shape.n_heads + h) * rows.shape.head_dim + i;
        worst = std::max(worst, std::abs(o - double(dense.out[at])));
      }
    }
  }
  EXPECT_LT(worst, 5e-6);  // largest seen 1.1e-6 (values up to 2)
}

// A scan of all rows that never evicts.
void scan_all(const Rows& rows, ThreadPool& threads, const RopeTable& rope, DType dtype,
              std::vector<float>& out) {
  PagePool pool({rows.shape.head_dim, dtype, true});
  std::vector<HeadCache> heads(rows.shape.n_kv_heads, HeadCache(&pool));
  std::vector<ScanJob> jobs;
  for (int h = 0; h < rows.shape.n_kv_heads; ++h) {
    ScanJob job;
    job.first_kv_head = h;
    job.heads = &heads[h];
    job.qkv = rows.qkv.data();
    job.qkv_stride = rows.shape.row_floats();
    job.out = out.data();
    job.out_stride = std::size_t(rows.shape.n_heads) * rows.shape.head_dim;
    job.n_rows = rows.n;
    jobs.push_back(job);
  }
  cpu::scan(threads, rows.shape, rope, jobs);
}

TEST_P(Attention, AScanThatNeverEvictsHasTheBitsOfDenseRows) {
  const Rows rows(GetParam(), 100, 2);
  ThreadPool threads(2);
  const RopeTable rope = make_rope_table(rows.shape.head_dim, kTheta, 128);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Dense dense(rows, threads, rope, dtype);
    std::vector<float> out(dense.out.size(), 0.0F);
    scan_all(rows, threads, rope, dtype, out);
    EXPECT_EQ(std::memcmp(out.data(), dense.out.data(), out.size() * sizeof(float)), 0)
        << name_of(dtype);
  }
}

// Several blocks, in one call and in two whose border lies within a page.
TEST_P(Attention, RowsOfSeveralBlocksHaveTheBitsOfAScan) {
  constexpr int kRows = 300;
  constexpr int kFirstCall = 141;
  const Rows rows(GetParam(), kRows, 5);
  ThreadPool threads(2);
  const RopeTable rope = make_rope_table(rows.shape.head_dim, kTheta, kRows + 1);
  const std::size_t out_stride = std::size_t(rows.shape.n_heads) * rows.shape.head_dim;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Dense dense(rows, threads, rope, dtype);
    PagePool pool({rows.shape.head_dim, dtype, true});
    std::vector<HeadCache> heads(rows.shape.n_kv_heads, HeadCache(&pool));
    std::vector<float> out(dense.out.size(), 0.0F);
    cpu::attend_dense(threads, rows.shape, rope,
                      {heads.data(), rows.qkv.data(), out.data(), kFirstCall, 0, nullptr});
    cpu::attend_dense(
        threads, rows.shape, rope,
        {heads.data(), rows.qkv.data() + kFirstCall * rows.shape.row_floats(),
         out.data() + kFirstCall * out_stride, kRows - kFirstCall, kFirstCall, nullptr});
    EXPECT_EQ(std::memcmp(out.data(), dense.out.data(), out.size() * sizeof(float)), 0)
        << name_of(dtype) << " in two calls";
    std::fill(out.begin(), out.end(), 0.0F);
    scan_all(rows, threads, rope, dtype, out);
    EXPECT_EQ(std::memcmp(out.data(), dense.out.data(), out.size() * sizeof(float)), 0)
        << name_of(dtype) << " scanned";
  }
}

// A row must not see what comes after it, not even with weight 0.
TEST_P(Attention, AnInfiniteValueStaysWithItsOwnAndLaterRows) {
  constexpr int kRows = 70;
  constexpr int kBad = 37;
  const Rows clean(GetParam(), kRows, 6);
  Rows bad = clean;
  const AttentionShape& shape = bad.shape;
  for (std::size_t i = std::size_t(shape.n_heads + shape.n_kv_heads) * shape.head_dim;
       i < shape.row_floats(); ++i) {
    bad.qkv[kBad * shape.row_floats() + i] = std::numeric_limits<float>::infinity();
  }
  ThreadPool threads(2);
  const RopeTable rope = make_rope_table(shape.head_dim, kTheta, 128);
  const std::size_t before = std::size_t(kBad) * shape.n_heads * shape.head_dim;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Dense expected(clean, threads, rope, dtype);
    const Dense dense(bad, threads, rope, dtype);
    EXPECT_EQ(std::memcmp(dense.out.data(), expected.out.data(), before * sizeof(float)), 0)
        << name_of(dtype);
    EXPECT_FALSE(std::isfinite(dense.out[before]));
    std::vector<float> out(dense.out.size(), 0.0F);
    scan_all(bad, threads, rope, dtype, out);
    EXPECT_EQ(std::memcmp(out.data(), expected.out.data(), before * sizeof(float)), 0)
        << name_of(dtype) << " scanned";
  }
}

TEST_P(Attention, ColumnWeightsAreSumsOfTheRowsWeights) {
  const Rows rows(GetParam(), 75, 3);
  ThreadPool threads(2);
  const RopeTable rope = make_rope_table(rows.shape.head_dim, kTheta, 128);
  const Dense dense(rows, threads, rope);
  using Need = PromptNeed;
  for (const Need& need :
       {Need{Need::Rows::kAll, 0, 1.0F, false}, Need{Need::Rows::kLast, 8, 1.0F, true},
        Need{Need::Rows::kLast, 1, 1.0F, false}, Need{Need::Rows::kAll, 0, 0.5F, false}}) {
    std::vector<float> sums(std::size_t(rows.shape.n_heads) * rows.n);
    cpu::column_weights(
        threads, rows.shape, rope,
        {dense.heads.data(), rows.qkv.data(), dense.lse.data(), rows.n, need, sums.data()});
    const int first = need.rows == Need::Rows::kLast ? rows.n - need.last_rows : 0;
    std::vector<double> expected(sums.size(), 0.0);
    for (int u = first; u < rows.n; ++u) {
      const double w =
          std::pow(double(need.decay), rows.n - 1 - u) / (need.mean ? rows.n - first : 1);
      for (int h = 0; h < rows.shape.n_heads; ++h) {
        const auto a = weights(rows, u, h, kTheta);
        for (int i = 0; i <= u; ++i) expected[std::size_t(h) * rows.n + i] += w * a[i];
      }
    }
    double worst = 0.0;
    for (std::size_t i = 0; i < sums.size(); ++i)
      worst = std::max(worst, std::abs(expected[i] - double(sums[i])));
    EXPECT_LT(worst, 2e-5);  // largest seen 4e-6, at sums near 10
  }
}

TEST(Attention, OneAndThreeThreadsGiveTheSameBits) {
  const Rows rows({9, 3, 64}, 150, 4);
  const RopeTable rope = make_rope_table(64, kTheta, 256);
  ThreadPool one(1);
  ThreadPool three(3);
  const Dense a(rows, one, rope);
  const Dense b(rows, three, rope);
  EXPECT_EQ(std::memcmp(a.out.data(), b.out.data(), a.out.size() * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof(float)), 0);
}

TEST(Half, RoundsToNearestEvenAndKeepsSpecialValues) {
  EXPECT_EQ(bf16_bits(1.0F), 0x3f80);
  EXPECT_EQ(bf16_bits(std::bit_cast<float>(0x3f808000U)), 0x3f80);  // tie to even
  EXPECT_EQ(bf16_bits(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(f16_bits(1.0F), 0x3c00);
  EXPECT_EQ(f16_bits(65504.0F), 0x7bff);
  EXPECT_EQ(f16_bits(65520.0F), 0x7c00);
  EXPECT_EQ(f16_bits(0x1p-24F), 0x0001);
  EXPECT_EQ(f16_bits(0x1p-25F), 0x0000);  // tie to even
  EXPECT_EQ(f16_bits(0x1.8p-25F), 0x0001);
  EXPECT_EQ(f16_bits(-0.0F), 0x8000);
  for (std::uint32_t h = 0; h < 0x10000U; ++h) {
    const float x = from_f16_bits(std::uint16_t(h));
    if (std::isnan(x)) continue;
    ASSERT_EQ(f16_bits(x), h);
  }
}

}  // namespace
}  // namespace kvscope
