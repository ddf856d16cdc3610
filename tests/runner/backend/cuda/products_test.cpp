#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runner/backend/cuda/cuda_matrix.h"
#include "runner/base/half.h"
#include "runner/base/splitmix.h"
#include "tests/runner/backend/cuda/device_array.h"

namespace kvscope::cuda {
namespace {

constexpr int kOut = 24;
constexpr int kIn = 40;

class CudaProducts : public testing::DeviceTest, public ::testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CudaProducts,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = float(smix(seed ^ smix(i)) >> 40) / float(1 << 24) - 0.5F;
  return values;
}

float rounded(float x, DType dtype) {
  if (dtype == DType::kBF16) return from_bf16_bits(bf16_bits(x));
  if (dtype == DType::kF16) return from_f16_bits(f16_bits(x));
  return x;
}

std::vector<float> multiply(const std::vector<float>& weights, const std::vector<float>& x,
                            int rows, RowKind kind, DType dtype) {
  UnifiedMemory memory(0, nullptr, std::int64_t{1} << 30);
  const CudaMatrix matrix(rows_of(weights, kIn), kOut, kIn, dtype, memory, nullptr);
  EXPECT_EQ(matrix.bytes(), weights.size() * element_bytes(dtype));
  Products products(memory, nullptr);
  const testing::DeviceArray<float> on_device(x);
  const testing::DeviceArray<float> y(std::size_t(rows) * kOut);
  products.multiply(matrix, on_device.data(), rows, kind, y.data());
  return y.read();
}

TEST_P(CudaProducts, AreThoseOfRoundedOperands) {
  const auto weights = random_floats(kOut * kIn, 1);
  for (const int rows : {1, 191, 192, 193}) {
    const auto x = random_floats(std::size_t(rows) * kIn, 2);
    const auto y = multiply(weights, x, rows, RowKind::kStep, GetParam());
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < kOut; ++o) {
        double sum = 0.0;
        for (int i = 0; i < kIn; ++i) {
          sum += double(rounded(weights[o * kIn + i], GetParam())) *
                 double(rounded(x[std::size_t(r) * kIn + i], GetParam()));
        }
        // 40 products below 0.25 in float32: a few units of 2^-24.
        ASSERT_NEAR(y[std::size_t(r) * kOut + o], sum, 2e-6) << "row " << r << " of " << rows;
      }
    }
  }
}

TEST_P(CudaProducts, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  const auto weights = random_floats(kOut * kIn, 1);
  for (const RowKind kind : {RowKind::kStep, RowKind::kPass}) {
    const int rows = Products::block_rows(kind) + 3;
    const auto x = random_floats(std::size_t(rows) * kIn, 2);
    const auto together = multiply(weights, x, rows, kind, GetParam());
    for (const int r : {0, 1, rows - 4, rows - 1}) {
      const std::vector<float> row(x.begin() + r * kIn, x.begin() + (r + 1) * kIn);
      const auto alone = multiply(weights, row, 1, kind, GetParam());
      EXPECT_EQ(alone,
                std::vector<float>(together.begin() + r * kOut, together.begin() + (r + 1) * kOut))
          << "row " << r;
    }
  }
}

TEST_P(CudaProducts, NonFiniteValuesStayInTheirRow) {
  const auto weights = random_floats(kOut * kIn, 1);
  auto x = random_floats(3 * kIn, 2);
  x[kIn + 5] = INFINITY;
  const auto y = multiply(weights, x, 3, RowKind::kStep, GetParam());
  for (int o = 0; o < kOut; ++o) {
    EXPECT_TRUE(std::isfinite(y[o]));
    EXPECT_FALSE(std::isfinite(y[kOut + o]));
    EXPECT_TRUE(std::isfinite(y[2 * kOut + o]));
  }
}

}  // namespace
}  // namespace kvscope::cuda
