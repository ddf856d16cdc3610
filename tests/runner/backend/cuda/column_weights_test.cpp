// Attention weights of prompt rows, summed and as they are, against plain loops in double and the
// CPU's, and their promises about bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runner/backend/backend.h"
#include "runner/backend/cpu/slots.h"
#include "runner/backend/cuda/prompt_attention.h"
#include "runner/engine/rope_table.h"
#include "tests/runner/backend/cuda/attention_fixture.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

// Prompt rows first_row … first_row + n_rows - 1 of n_prompt, with queries and log-sum-exps.
struct Rows {
  HeadCounts counts;
  PageShape shape;
  int n_rows = 0;
  int first_row = 0;
  int n_prompt = 0;
  std::vector<float> q;    // [n_rows][n_heads][head_dim]
  std::vector<float> lse;  // [n_heads][n_prompt]
  std::size_t row_floats() const { return std::size_t(counts.n_heads) * shape.head_dim; }
};

// Of the plain rows in double; NaN for rows that are not among them.
Rows make_rows(const HostHeads& host, HeadCounts counts, int first_row, int n_rows, int n_prompt,
               std::vector<PlainRow>& plain) {
  Rows rows{counts, host.pool.shape(), n_rows, first_row, n_prompt, {}, {}};
  rows.q = random_queries(std::size_t(n_rows) * counts.n_heads, rows.shape, 2);
  rows.lse.assign(std::size_t(counts.n_heads) * n_prompt, std::numeric_limits<float>::quiet_NaN());
  for (int r = 0; r < n_rows; ++r) {
    for (int h = 0; h < counts.n_heads; ++h) {
      plain.emplace_back(
          host.heads[h / counts.group()],
          std::span(rows.q).subspan(r * rows.row_floats() + std::size_t(h) * rows.shape.head_dim,
                                    rows.shape.head_dim),
          first_slots(first_row + r + 1));
      rows.lse[std::size_t(h) * n_prompt + first_row + r] = float(plain.back().lse);
    }
  }
  return rows;
}

std::vector<float> run_columns(const DeviceHeads& heads, const Rows& rows,
                               const std::vector<float>& weight) {
  const DeviceArray<float> q(rows.q);
  const DeviceArray<float> lse(rows.lse);
  const DeviceArray<float> row_weight(weight);
  const DeviceArray<float> out(std::size_t(rows.counts.n_heads) * rows.n_prompt);
  column_weights({heads.data(), q.data(), lse.data(), row_weight.data(), out.data(), rows.counts,
                  rows.n_rows, rows.first_row, rows.n_prompt},
                 layout_of(rows.shape), nullptr);
  return out.read();
}

constexpr float kLeftAlone = -7.0F;

std::vector<float> run_rows(const DeviceHeads& heads, const Rows& rows) {
  const DeviceArray<float> q(rows.q);
  const DeviceArray<float> lse(rows.lse);
  const DeviceArray<float> out(std::vector<float>(
      std::size_t(rows.n_rows) * rows.counts.n_heads * rows.n_prompt, kLeftAlone));
  attention_rows({heads.data(), q.data(), lse.data(), out.data(), rows.counts, rows.n_rows,
                  rows.first_row, rows.n_prompt},
                 layout_of(rows.shape), nullptr);
  return out.read();
}

class CudaColumnWeights : public DeviceTest {};

TEST_F(CudaColumnWeights, TwoRowsByHand) {
  const float ln2 = std::log(2.0F);
  const float ln3 = std::log(3.0F);
  HostHeads host(page_shape(2, SlotFormat::kF32), 1, 0, 0);
  host.append(0, {0.0F, 5.0F}, {0.0F, 0.0F});
  host.append(0, {ln2, 7.0F}, {0.0F, 0.0F});
  const DeviceHeads heads(host.heads);
  const Rows rows{{1, 1}, host.pool.shape(), 2, 0, 2, {1.0F, 0.0F, 1.0F, 0.0F}, {0.0F, ln3}};
  const auto weights = run_rows(heads, rows);
  EXPECT_EQ(weights[0], 1.0F);
  EXPECT_EQ(weights[1], kLeftAlone);
  EXPECT_FLOAT_EQ(weights[2], 1.0F / 3.0F);
  EXPECT_FLOAT_EQ(weights[3], 2.0F / 3.0F);
  const auto sums = run_columns(heads, rows, {10.0F, 0.5F});
  EXPECT_FLOAT_EQ(sums[0], 10.0F + 0.5F / 3.0F);
  EXPECT_FLOAT_EQ(sums[1], 1.0F / 3.0F);
}

TEST_F(CudaColumnWeights, NothingIsAllowed) {
  column_weights({}, layout_of(page_shape(8, SlotFormat::kF32)), nullptr);
  attention_rows({}, layout_of(page_shape(8, SlotFormat::kF32)), nullptr);
}

struct Shape {
  HeadCounts counts;
  int head_dim;
  SlotFormat format;
};
class CudaColumnWeightsShapes : public CudaColumnWeights,
                                public ::testing::WithParamInterface<Shape> {
 protected:
  const HeadCounts counts = GetParam().counts;
  const PageShape shape = page_shape(GetParam().head_dim, GetParam().format);
};

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  for (const SlotFormat format : {SlotFormat::kF32, SlotFormat::kBF16}) {
    shapes.push_back({{1, 1}, 8, format});
    shapes.push_back({{3, 1}, 16, format});
    shapes.push_back({{6, 2}, 64, format});
    shapes.push_back({{2, 2}, 80, format});
    shapes.push_back({{8, 1}, 128, format});
    shapes.push_back({{2, 1}, 256, format});
  }
  for (const SlotFormat format :
       {SlotFormat::kF16, SlotFormat::kInt8, SlotFormat::kFp8E4M3, SlotFormat::kFp8E5M2})
    shapes.push_back({{2, 1}, 70, format});
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaColumnWeightsShapes, ::testing::ValuesIn(all_shapes()),
                         [](const auto& p) {
                           return std::string(name_of(p.param.format)) + "_" +
                                  std::to_string(p.param.counts.n_heads) + "_" +
                                  std::to_string(p.param.counts.n_kv_heads) + "_" +
                                  std::to_string(p.param.head_dim);
                         });

TEST_P(CudaColumnWeightsShapes, EqualPlainLoops) {
  struct Case {
    int first_row;
    int n_rows;
  };
  double worst = 0.0;
  double worst_sum = 0.0;
  for (const auto [first_row, n_rows] : {Case{0, 1}, Case{0, 31}, Case{0, 33}, Case{31, 1},
                                         Case{32, 1}, Case{250, 7}, Case{120, 70}, Case{0, 130}}) {
    const int n_prompt = first_row + n_rows;
    const HostHeads host(shape, counts.n_kv_heads, n_prompt, 1);
    const DeviceHeads heads(host.heads);
    std::vector<PlainRow> plain;
    const Rows rows = make_rows(host, counts, first_row, n_rows, n_prompt, plain);
    const auto row_weight = random_values(n_rows, 3, 1.0F);
    const auto weights = run_rows(heads, rows);
    const auto sums = run_columns(heads, rows, row_weight);
    std::vector<double> plain_sums(sums.size(), 0.0);
    for (int r = 0; r < n_rows; ++r) {
      for (int h = 0; h < counts.n_heads; ++h) {
        const std::size_t at = std::size_t(r) * counts.n_heads + h;
        for (int j = 0; j < n_prompt; ++j) {
          const float weight = weights[at * n_prompt + j];
          if (j > first_row + r) {
            EXPECT_EQ(weight, kLeftAlone);
          } else {
            worst = std::max(worst, std::abs(plain[at].weights[j] - double(weight)));
            plain_sums[std::size_t(h) * n_prompt + j] +=
                double(row_weight[r]) * plain[at].weights[j];
          }
        }
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      worst_sum = std::max(worst_sum, std::abs(plain_sums[i] - double(sums[i])));
  }
  // Largest seen 9.6e-7 (weights up to 1) and 8.8e-7.
  EXPECT_LT(worst, shape.in_pairs() ? kTensorRounding : 5e-6);
  EXPECT_LT(worst_sum, shape.in_pairs() ? kTensorRounding : 5e-6);
}

// The sums are those of the rows' own weights in order of row, whatever tiles both were computed
// in.
TEST_P(CudaColumnWeightsShapes, ColumnsAreTheRowsAddedInOrder) {
  constexpr int kFirst = 90;
  constexpr int kRows = 75;
  constexpr int kPrompt = kFirst + kRows;
  const HostHeads host(shape, counts.n_kv_heads, kPrompt, 4);
  const DeviceHeads heads(host.heads);
  std::vector<PlainRow> plain;
  const Rows rows = make_rows(host, counts, kFirst, kRows, kPrompt, plain);
  const auto row_weight = random_values(kRows, 5, 1.0F);
  const auto weights = run_rows(heads, rows);
  std::vector<float> expected(std::size_t(counts.n_heads) * kPrompt, 0.0F);
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < counts.n_heads; ++h) {
      for (int j = 0; j <= kFirst + r; ++j) {
        const float term =
            row_weight[r] * weights[(std::size_t(r) * counts.n_heads + h) * kPrompt + j];
        expected[std::size_t(h) * kPrompt + j] += term;
      }
    }
  }
  EXPECT_TRUE(same_bits(run_columns(heads, rows, row_weight), expected));
}

TEST_P(CudaColumnWeightsShapes, ARowAloneHasTheBitsItHasAmongOthers) {
  constexpr int kFirst = 110;
  constexpr int kRows = 40;
  constexpr int kPrompt = kFirst + kRows;
  const HostHeads host(shape, counts.n_kv_heads, kPrompt, 6);
  const DeviceHeads heads(host.heads);
  std::vector<PlainRow> plain;
  const Rows all = make_rows(host, counts, kFirst, kRows, kPrompt, plain);
  const auto weights = run_rows(heads, all);
  for (const int row : {0, 17, kRows - 1}) {
    Rows one = all;
    one.n_rows = 1;
    one.first_row = kFirst + row;
    one.q.assign(all.q.begin() + row * all.row_floats(),
                 all.q.begin() + (row + 1) * all.row_floats());
    const std::size_t width = std::size_t(counts.n_heads) * kPrompt;
    EXPECT_TRUE(same_bits(run_rows(heads, one), std::span(weights).subspan(row * width, width)));
  }
}

class CudaColumnWeightsPages : public CudaColumnWeights,
                               public ::testing::WithParamInterface<SlotFormat> {};
INSTANTIATE_TEST_SUITE_P(Pages, CudaColumnWeightsPages, ::testing::ValuesIn(kAllFormats),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(CudaColumnWeightsPages, EqualTheCpu) {
  constexpr int kRows = 150;
  constexpr int kLast = 20;
  const AttentionShape attention{6, 2, 64};
  const HeadCounts counts{attention.n_heads, attention.n_kv_heads};
  const PageShape shape = page_shape(attention.head_dim, GetParam());
  const RopeTable rope = make_rope_table(attention.head_dim, 10000.0, kRows);
  const auto qkv = random_values(kRows * attention.row_floats(), 7, 2.0F);
  PagePool pool(shape);
  std::vector<HeadCache> caches(attention.n_kv_heads, HeadCache(&pool));
  std::vector<float> out(std::size_t(kRows) * attention.n_heads * attention.head_dim);
  std::vector<float> lse(std::size_t(attention.n_heads) * kRows);
  DenseJob dense{caches.data(), qkv.data(), out.data(), kRows};
  dense.lse = lse.data();
  const auto cpu = make_cpu_backend(1);
  cpu->attend_dense(attention, rope, dense);

  const PromptNeed need{PromptNeed::Rows::kLast, kLast, 0.5F, true};
  std::vector<float> cpu_sums(lse.size());
  cpu->column_weights(attention, rope,
                      {caches.data(), qkv.data(), lse.data(), kRows, need, cpu_sums.data()});
  std::vector<float> cpu_rows(std::size_t(kLast) * counts.n_heads * kRows, kLeftAlone);
  cpu->attention_rows(
      attention, rope,
      {caches.data(), qkv.data(), lse.data(), kRows, kRows - kLast, kLast, cpu_rows.data()});

  Rows rows{counts, shape,
            kLast,  kRows - kLast,
            kRows,  rotated_queries(attention, rope, qkv, kRows - kLast, kLast, shape),
            lse};
  std::vector<float> row_weight(kLast);
  double weight = 1.0 / kLast;
  for (int r = kLast - 1; r >= 0; --r, weight *= 0.5) row_weight[r] = float(weight);
  const DeviceHeads heads(caches);
  const auto sums = run_columns(heads, rows, row_weight);
  const auto weights = run_rows(heads, rows);
  float worst_sum = 0.0F;
  for (std::size_t i = 0; i < sums.size(); ++i)
    worst_sum = std::max(worst_sum, std::abs(cpu_sums[i] - sums[i]));
  float worst = 0.0F;
  for (std::size_t i = 0; i < weights.size(); ++i)
    worst = std::max(worst, std::abs(cpu_rows[i] - weights[i]));
  // Largest seen 5.6e-9 and 1.1e-7, both of bf16, whose products of pairs the CPU sums otherwise.
  const float rounding = shape.in_pairs() ? float(kTensorRounding) : 1e-6F;
  EXPECT_LT(worst_sum, rounding);
  EXPECT_LT(worst, rounding);
}

}  // namespace
}  // namespace kvscope::cuda
