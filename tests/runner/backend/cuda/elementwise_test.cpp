#include "runner/backend/cuda/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "runner/base/half.h"
#include "tests/runner/backend/cuda/device_array.h"
#include "tests/runner/backend/cuda/floats.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

// Relative to the exact value.
double worst_error(const std::vector<float>& values, const std::vector<double>& exact) {
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs((double(values[i]) - exact[i]) / exact[i]));
  return worst;
}

constexpr int kWidths[] = {1, 2, 3, 5, 8, 31, 32, 33, 100, 256, 257, 1024, 1025, 2050};

class CudaElementwise : public DeviceTest {};

// ---------------------------------------------------------------- embed, copy_rows

TEST_F(CudaElementwise, EmbedTakesRowsInAnyOrder) {
  const DeviceArray<float> table(std::vector<float>{1, 2, 3, 4, 5, 6});  // [3][2]
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{2, 0, 2});
  const DeviceArray<float> out(6);
  embed(table.data(), DType::kF32, 2, ids.data(), 3, out.data(), nullptr);
  EXPECT_EQ(out.read(), (std::vector<float>{5, 6, 1, 2, 5, 6}));
}

TEST_F(CudaElementwise, EmbedWidensSixteenBits) {
  const DeviceArray<std::uint16_t> bf16(std::vector<std::uint16_t>{0x3F80, 0xC000, 0x0001, 0xFF80});
  const DeviceArray<std::uint16_t> f16(std::vector<std::uint16_t>{0x3C00, 0xC000, 0x0001, 0xFC00});
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{0});
  const DeviceArray<float> out(4);
  embed(bf16.data(), DType::kBF16, 4, ids.data(), 1, out.data(), nullptr);
  EXPECT_EQ(out.read(), (std::vector<float>{1.0F, -2.0F, 0x1p-133F, -kInfinity}));
  embed(f16.data(), DType::kF16, 4, ids.data(), 1, out.data(), nullptr);
  EXPECT_EQ(out.read(), (std::vector<float>{1.0F, -2.0F, 0x1p-24F, -kInfinity}));
}

TEST_F(CudaElementwise, EmbedOfEveryWidth) {
  const std::vector<std::int32_t> rows{4, 0, 1, 4, 3};
  const DeviceArray<std::int32_t> ids(rows);
  for (const int d : kWidths) {
    const auto wide = random_floats(std::size_t(5) * d, 1.0F, 1);
    std::vector<std::uint16_t> half;
    for (const float v : wide) half.push_back(f16_bits(v));
    const DeviceArray<std::uint16_t> table(half);
    const DeviceArray<float> out(rows.size() * d);
    embed(table.data(), DType::kF16, d, ids.data(), int(rows.size()), out.data(), nullptr);
    std::vector<float> expected;
    for (const int row : rows) {
      for (int i = 0; i < d; ++i) expected.push_back(from_f16_bits(half[std::size_t(row) * d + i]));
    }
    EXPECT_EQ(out.read(), expected) << d;
  }
}

TEST_F(CudaElementwise, CopyRowsOfEveryWidth) {
  const std::vector<std::int32_t> rows{2, 2, 0};
  const DeviceArray<std::int32_t> indices(rows);
  for (const int width : kWidths) {
    const auto x = random_floats(std::size_t(3) * width, 1.0F, 2);
    const DeviceArray<float> from(x);
    const DeviceArray<float> out(rows.size() * width);
    copy_rows(from.data(), width, indices.data(), int(rows.size()), out.data(), nullptr);
    std::vector<float> expected;
    for (const int row : rows)
      expected.insert(expected.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
    EXPECT_EQ(out.read(), expected) << width;
  }
}

// ---------------------------------------------------------------- rms_norm

TEST_F(CudaElementwise, RmsNormLiteralRow) {
  const DeviceArray<float> x(std::vector<float>{3, 4});  // mean of squares 12.5
  const DeviceArray<float> weight(std::vector<float>{2, 1});
  const DeviceArray<float> y(2);
  rms_norm(x.data(), weight.data(), 0.0F, 1, 2, y.data(), nullptr);
  EXPECT_FLOAT_EQ(y.read()[0], 1.6970563F);
  EXPECT_FLOAT_EQ(y.read()[1], 1.1313709F);
  rms_norm(x.data(), weight.data(), 12.5F, 1, 2, y.data(), nullptr);
  EXPECT_FLOAT_EQ(y.read()[0], 1.2F);
  EXPECT_FLOAT_EQ(y.read()[1], 0.8F);
}

// Measured worst relative error over these rows: 2.0e-7, of which two products round by 1.2e-7.
TEST_F(CudaElementwise, RmsNormCloseToExactArithmetic) {
  constexpr int kRows = 3;
  constexpr float kEps = 1e-5F;
  double worst = 0;
  for (const int d : {1, 2, 3, 5, 8, 31, 33, 257, 1024, 1025, 4096, 8192}) {
    const auto x = random_floats(std::size_t(kRows) * d, 3.0F, 3);
    const auto weight = random_floats(d, 1.0F, 4);
    const DeviceArray<float> device_x(x);
    const DeviceArray<float> device_weight(weight);
    const DeviceArray<float> y(x.size());
    rms_norm(device_x.data(), device_weight.data(), kEps, kRows, d, y.data(), nullptr);
    std::vector<double> exact;
    for (int r = 0; r < kRows; ++r) {
      const float* row = x.data() + std::size_t(r) * d;
      double sum = 0;
      for (int i = 0; i < d; ++i) sum += double(row[i]) * row[i];
      for (int i = 0; i < d; ++i)
        exact.push_back(double(row[i]) * weight[i] / std::sqrt(sum / d + double(kEps)));
    }
    worst = std::max(worst, worst_error(y.read(), exact));
  }
  EXPECT_LT(worst, 4e-7);
}

TEST_F(CudaElementwise, RmsNormRowDependsOnItselfAlone) {
  constexpr int kWidth = 100;
  const auto x = random_floats(5 * kWidth, 1.0F, 5);
  const auto weight = random_floats(kWidth, 1.0F, 6);
  const DeviceArray<float> device_weight(weight);
  const DeviceArray<float> all(x);
  rms_norm(all.data(), device_weight.data(), 1e-5F, 5, kWidth, all.data(), nullptr);  // in place
  // Alone and off every vector's boundary.
  std::vector<float> shifted(kWidth + 1);
  std::copy(x.begin() + 3 * kWidth, x.begin() + 4 * kWidth, shifted.begin() + 1);
  const DeviceArray<float> alone(shifted);
  const DeviceArray<float> y(kWidth);
  rms_norm(alone.data() + 1, device_weight.data(), 1e-5F, 1, kWidth, y.data(), nullptr);
  const std::vector<float> together = all.read();
  EXPECT_EQ(bits_of(y.read()),
            bits_of({together.begin() + 3 * kWidth, together.begin() + 4 * kWidth}));
}

// ---------------------------------------------------------------- swiglu, add

TEST_F(CudaElementwise, SwigluLiteralRowAndExtremes) {
  const DeviceArray<float> gate_up(std::vector<float>{0, 1, -1, 200, -200, /*up*/ 5, 2, 3, 1, 1});
  const DeviceArray<float> y(5);
  swiglu(gate_up.data(), 1, 5, y.data(), nullptr);
  const std::vector<float> out = y.read();
  EXPECT_EQ(out[0], 0.0F);
  EXPECT_FLOAT_EQ(out[1], 1.4621172F);
  EXPECT_FLOAT_EQ(out[2], -0.8068243F);
  EXPECT_EQ(out[3], 200.0F);
  EXPECT_EQ(out[4], 0.0F);
}

// Measured worst relative error over these rows: 1.6e-7 with the C library's expf; a device's has
// errors up to 2 units more (1.2e-7 each).
TEST_F(CudaElementwise, SwigluCloseToExactArithmetic) {
  constexpr int kRows = 3;
  double worst = 0;
  for (const int d_ff : kWidths) {
    const auto x = random_floats(std::size_t(2) * kRows * d_ff, 6.0F, 7);
    const DeviceArray<float> gate_up(x);
    const DeviceArray<float> y(std::size_t(kRows) * d_ff);
    swiglu(gate_up.data(), kRows, d_ff, y.data(), nullptr);
    std::vector<double> exact;
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < d_ff; ++i) {
        const double gate = x[std::size_t(2 * r) * d_ff + i];
        const double up = x[std::size_t(2 * r + 1) * d_ff + i];
        exact.push_back(gate / (1 + std::exp(-gate)) * up);
      }
    }
    worst = std::max(worst, worst_error(y.read(), exact));
  }
  EXPECT_LT(worst, 6e-7);
}

TEST_F(CudaElementwise, AddOfEveryLength) {
  for (const int n : kWidths) {
    const auto x = random_floats(n, 1.0F, 8);
    auto expected = random_floats(n, 1.0F, 9);
    const DeviceArray<float> device_x(x);
    const DeviceArray<float> y(expected);
    add(device_x.data(), n, y.data(), nullptr);
    for (int i = 0; i < n; ++i) expected[i] += x[i];
    EXPECT_EQ(bits_of(y.read()), bits_of(expected)) << n;
  }
}

// ---------------------------------------------------------------- to_dtype

// Ties, carries into the exponent, subnormal results, overflow, and NaNs, which must not become
// infinity.
const std::vector<float> kAwkward{0.0F,
                                  -0.0F,
                                  1.0F,
                                  0x1.01p0F,   // tie of bf16, to even: down
                                  0x1.03p0F,   // tie, up
                                  0x1.002p0F,  // tie of f16, down
                                  0x1.006p0F,  // tie, up
                                  0x1.FFFp0F,  // carries
                                  -0x1.FFFFFEp127F,
                                  65504.0F,
                                  65519.99F,
                                  65520.0F,
                                  -1e6F,
                                  0x1p-24F,
                                  0x1p-25F,
                                  0x1.000002p-25F,
                                  0x1.8p-24F,
                                  0x1.FFCp-15F,
                                  0x1p-149F,
                                  -0x1p-133F,
                                  kInfinity,
                                  -kInfinity,
                                  std::bit_cast<float>(0x7FC00000U),
                                  std::bit_cast<float>(0xFF800001U),
                                  std::bit_cast<float>(0x7FFFFFFFU)};

TEST_F(CudaElementwise, ToDtypeRoundsAsTheCpuDoes) {
  auto x = random_floats(3000, 1.0F, 10);
  x.insert(x.end(), kAwkward.begin(), kAwkward.end());
  std::vector<std::uint16_t> bf16;
  std::vector<std::uint16_t> f16;
  for (const float v : x) {
    bf16.push_back(bf16_bits(v));
    f16.push_back(f16_bits(v));
  }
  const DeviceArray<float> from(x);
  const DeviceArray<std::uint16_t> out(x.size());
  to_dtype(from.data(), x.size(), x.size(), DType::kBF16, out.data(), nullptr);
  EXPECT_EQ(out.read(), bf16);
  to_dtype(from.data(), x.size(), x.size(), DType::kF16, out.data(), nullptr);
  EXPECT_EQ(out.read(), f16);
  const DeviceArray<float> wide(x.size());
  to_dtype(from.data(), x.size(), x.size(), DType::kF32, wide.data(), nullptr);
  EXPECT_EQ(bits_of(wide.read()), bits_of(x));
}

TEST_F(CudaElementwise, ToDtypePadsWithZeros) {
  for (const std::size_t n : {0U, 1U, 2U, 3U, 4U, 5U, 1023U, 1024U, 1025U}) {
    for (const std::size_t padding : {0U, 1U, 3U, 4U, 2000U}) {
      const DeviceArray<float> x(std::vector<float>(n, 1.0F));
      const DeviceArray<std::uint16_t> out(n + padding);
      to_dtype(x.data(), n, n + padding, DType::kBF16, out.data(), nullptr);
      std::vector<std::uint16_t> expected(n + padding, 0);
      std::fill_n(expected.begin(), n, std::uint16_t(0x3F80));
      EXPECT_EQ(out.read(), expected) << n << " + " << padding;
    }
  }
}

TEST_F(CudaElementwise, NoRowsAreAllowed) {
  embed(nullptr, DType::kF32, 8, nullptr, 0, nullptr, nullptr);
  rms_norm(nullptr, nullptr, 0.0F, 0, 8, nullptr, nullptr);
  swiglu(nullptr, 0, 8, nullptr, nullptr);
  add(nullptr, 0, nullptr, nullptr);
  copy_rows(nullptr, 8, nullptr, 0, nullptr, nullptr);
  to_dtype(nullptr, 0, 0, DType::kF16, nullptr, nullptr);
  gpu_check(cudaDeviceSynchronize(), "nothing to do");
}

}  // namespace
}  // namespace kvscope::cuda
