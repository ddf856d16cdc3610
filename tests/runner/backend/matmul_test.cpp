// The promise that all exactness rests on: a row of a product has the same bits for every number of
// rows, row position and number of threads. Run twice by ctest, the second time with
// DNNL_MAX_CPU_ISA=AVX2.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "runner/backend/cpu/onednn_matrix.h"
#include "runner/backend/cpu/portable_matrix.h"
#include "runner/base/half.h"

namespace kvscope::cpu {
namespace {

struct Shape {
  int n_out;
  int n_in;
};

constexpr int kMaxRows = 512;
constexpr int kRowCounts[] = {1,  2,  3,   5,   7,   8,   12,  17,  32,
                              64, 65, 100, 127, 129, 256, 257, 300, 512};

std::vector<float> random_floats(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(generator);
  return values;
}

using Make = std::unique_ptr<CpuMatrix> (*)(int n_threads, std::span<const float> w, Shape shape,
                                            DType dtype);

std::unique_ptr<CpuMatrix> onednn(int n_threads, std::span<const float> w, Shape s, DType dtype) {
  ThreadPool pool(n_threads);
  return make_onednn_matrix(pool, make_onednn_context(n_threads), rows_of(w, s.n_in), s.n_out,
                            s.n_in, dtype);
}
std::unique_ptr<CpuMatrix> portable(int n_threads, std::span<const float> w, Shape s, DType dtype) {
  ThreadPool pool(n_threads);
  return make_portable_matrix(pool, rows_of(w, s.n_in), s.n_out, s.n_in, dtype);
}

std::vector<float> multiply(ThreadPool& pool, const CpuMatrix& m, const float* x, int rows) {
  std::vector<float> y(std::size_t(rows) * m.n_out(), NAN);
  m.multiply(pool, x, rows, y.data());
  return y;
}

bool same_row(const float* a, const float* b, int n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

// Rows one at a time with one thread are the truth; every other way must give their bits.
void expect_row_stable(Make make, Shape shape, DType dtype) {
  const auto w = random_floats(std::size_t(shape.n_out) * shape.n_in, 1);
  const auto x = random_floats(std::size_t(kMaxRows) * shape.n_in, 2);
  ThreadPool alone(1);
  const auto reference = make(1, w, shape, dtype);
  std::vector<float> expected;
  for (int r = 0; r < kMaxRows; ++r) {
    const auto row = multiply(alone, *reference, &x[std::size_t(r) * shape.n_in], 1);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  for (const int n_threads : {1, 2, 3}) {
    ThreadPool pool(n_threads);
    const auto matrix = make(n_threads, w, shape, dtype);
    for (const int rows : kRowCounts) {
      // The last start makes the rows end at the last one: each row comes at several positions.
      for (const int start : {0, (kMaxRows - rows) / 3, kMaxRows - rows}) {
        const auto y = multiply(pool, *matrix, &x[std::size_t(start) * shape.n_in], rows);
        for (int r = 0; r < rows; ++r) {
          ASSERT_TRUE(same_row(&y[std::size_t(r) * shape.n_out],
                               &expected[std::size_t(start + r) * shape.n_out], shape.n_out))
              << name_of(dtype) << " [" << shape.n_out << "][" << shape.n_in << "]: row " << r
              << " of " << rows << ", " << n_threads << " threads";
        }
      }
    }
  }
}

// One row at every position among different neighbours.
void expect_position_free(Make make, Shape shape, DType dtype) {
  constexpr int kRows = 37;
  const auto w = random_floats(std::size_t(shape.n_out) * shape.n_in, 3);
  auto x = random_floats(std::size_t(kRows) * shape.n_in, 4);
  const auto probe = random_floats(shape.n_in, 5);
  ThreadPool pool(2);
  const auto matrix = make(2, w, shape, dtype);
  const auto expected = multiply(pool, *matrix, probe.data(), 1);
  for (int position = 0; position < kRows; ++position) {
    auto rows = x;
    std::copy(probe.begin(), probe.end(), rows.begin() + std::ptrdiff_t(position) * shape.n_in);
    const auto y = multiply(pool, *matrix, rows.data(), kRows);
    ASSERT_TRUE(same_row(&y[std::size_t(position) * shape.n_out], expected.data(), shape.n_out))
        << position;
  }
}

float held_as(float v, DType dtype) {
  return dtype == DType::kF32    ? v
         : dtype == DType::kBF16 ? from_bf16_bits(bf16_bits(v))
                                 : from_f16_bits(f16_bits(v));
}

// Against double arithmetic over the same rounded operands. Measured worst error of a sum of 1536
// products of normal numbers (standard deviation 39): 2.1e-4 by our chain of multiply-adds, 1.3e-4
// by oneDNN.
void expect_right(Make make, Shape shape, DType dtype) {
  constexpr int kRows = 13;
  const auto w = random_floats(std::size_t(shape.n_out) * shape.n_in, 6);
  const auto x = random_floats(std::size_t(kRows) * shape.n_in, 7);
  ThreadPool pool(2);
  const auto y = multiply(pool, *make(2, w, shape, dtype), x.data(), kRows);
  double worst = 0;
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < shape.n_out; ++o) {
      double sum = 0;
      for (int k = 0; k < shape.n_in; ++k) {
        const float xk = x[std::size_t(r) * shape.n_in + k];
        sum += double(dtype == DType::kBF16 ? held_as(xk, dtype) : xk) *
               double(held_as(w[std::size_t(o) * shape.n_in + k], dtype));
      }
      worst = std::max(worst, std::abs(sum - double(y[std::size_t(r) * shape.n_out + o])));
    }
  }
  EXPECT_LT(worst, 3e-4) << name_of(dtype) << " [" << shape.n_out << "][" << shape.n_in << "]";
}

// The model's fused projections (q,k,v; output; gate,up; down), a part of its head, and widths that
// fill no slice.
constexpr Shape kShapes[] = {{960, 576},        {576, 576}, {3072, 576}, {576, 1536},
                             {49152 / 16, 576}, {70, 40},   {17, 33},    {1, 1}};
constexpr Shape kHead{49152, 576};

bool onednn_has(DType dtype) {
  const OneDnnSupport support = onednn_support();
  return dtype == DType::kF32 ? support.f32 : dtype == DType::kBF16 && support.bf16;
}

class OneDnnMatrixTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!onednn_has(GetParam()))
      GTEST_SKIP() << "oneDNN has no row-stable " << name_of(GetParam()) << " kernel here";
  }
};

TEST_P(OneDnnMatrixTest, RowsAreStable) {
  for (const Shape& s : kShapes) expect_row_stable(onednn, s, GetParam());
}
TEST_P(OneDnnMatrixTest, EveryPositionOfARow) {
  for (const Shape& s : kShapes) expect_position_free(onednn, s, GetParam());
}
TEST_P(OneDnnMatrixTest, RightProducts) {
  for (const Shape& s : kShapes) expect_right(onednn, s, GetParam());
}
TEST_P(OneDnnMatrixTest, RowsOfTheHeadAreStable) {
  const auto w = random_floats(std::size_t(kHead.n_out) * kHead.n_in, 1);
  const auto x = random_floats(std::size_t(130) * kHead.n_in, 2);
  ThreadPool pool(2);
  const auto matrix = onednn(2, w, kHead, GetParam());
  const auto all = multiply(pool, *matrix, x.data(), 130);
  for (const int start : {0, 1, 63, 122}) {
    for (const int rows : {1, 8}) {
      const auto y = multiply(pool, *matrix, &x[std::size_t(start) * kHead.n_in], rows);
      ASSERT_EQ(0, std::memcmp(y.data(), &all[std::size_t(start) * kHead.n_out],
                               y.size() * sizeof(float)))
          << rows << " rows from " << start;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Types, OneDnnMatrixTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

class PortableMatrixTest : public testing::TestWithParam<DType> {
 protected:
  // The test body for each instruction set of this machine.
  template <class Body>
  void for_each_target(Body body) {
    const auto all = hwy::SupportedTargets() & HWY_TARGETS;
    for (std::int64_t left = all; left != 0; left &= left - 1) {
      hwy::SetSupportedTargetsForTest(left & -left);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      SCOPED_TRACE(portable_target());
      body();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_P(PortableMatrixTest, RowsAreStable) {
  for (const Shape& s : kShapes) expect_row_stable(portable, s, GetParam());
}
TEST_P(PortableMatrixTest, RowsAreStableOnEveryInstructionSet) {
  for_each_target([] { expect_row_stable(portable, {100, 70}, GetParam()); });
}
TEST_P(PortableMatrixTest, EveryPositionOfARow) {
  for_each_target([] { expect_position_free(portable, {100, 70}, GetParam()); });
}
TEST_P(PortableMatrixTest, RightProducts) {
  for_each_target([] {
    for (const Shape& s : {Shape{576, 1536}, Shape{70, 40}, Shape{17, 33}, Shape{1, 1}})
      expect_right(portable, s, GetParam());
  });
}
INSTANTIATE_TEST_SUITE_P(Types, PortableMatrixTest,
                         testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Cut, CoversEverythingOnce) {
  EXPECT_EQ(cut(5, 2), (std::vector<Range>{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_TRUE(cut(0, 2).empty());
}

}  // namespace
}  // namespace kvscope::cpu
