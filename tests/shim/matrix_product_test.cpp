// The product of matrices of a warp: every element of every fragment is where the PTX ISA has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_runtime.h"

namespace kvscope::cuda {
namespace {

constexpr int kRows = 16;
constexpr int kColumns = 8;
constexpr int kDepth = 16;

std::uint32_t bf16_of(float x) { return __float_as_uint(x) >> 16; }  // x must be one

struct Matrices {
  float a[kRows][kDepth] = {};
  float b[kDepth][kColumns] = {};
  float c[kRows][kColumns] = {};
};

// Loads and stores element by element, by the words of the ISA: group = lane / 4, in_group =
// lane % 4, and for the i-th element of a: row = group for i in {0, 1, 4, 5}, else group + 8, k =
// in_group · 2 + (i & 1), plus 8 for i ≥ 4.
__global__ void multiply(Matrices* m) {
  const int group = int(threadIdx.x) / 4;
  const int in_group = int(threadIdx.x) % 4;
  std::uint32_t a[4] = {};
  for (int i = 0; i < 8; ++i) {
    const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    const int k = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    a[i / 2] |= bf16_of(m->a[row][k]) << 16 * (i % 2);
  }
  std::uint32_t b[2] = {};
  for (int i = 0; i < 4; ++i)
    b[i / 2] |= bf16_of(m->b[in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group]) << 16 * (i % 2);
  float c[4];
  for (int i = 0; i < 4; ++i) c[i] = m->c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
  mma_m16n8k16(c, a, b);
  for (int i = 0; i < 4; ++i) m->c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)] = c[i];
}

Matrices multiplied(const Matrices& matrices) {
  Matrices* m = nullptr;
  gpu_check(cudaMalloc(&m, sizeof *m), "cudaMalloc");
  *m = matrices;
  launch(multiply, 1, 32, 0, nullptr, m);
  gpu_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const Matrices result = *m;
  cudaFree(m);
  return result;
}

// Small whole numbers, different where it matters: all sums are exact.
float at(int row, int column) { return float((row * 7 + column * 3) % 32 - 15); }

TEST(MatrixProduct, TheIdentityGivesTheOtherOperand) {
  Matrices m;
  for (int k = 0; k < kDepth; ++k) {
    m.a[k][k] = 1.0F;
    for (int n = 0; n < kColumns; ++n) m.b[k][n] = at(k, n);
  }
  const Matrices result = multiplied(m);
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kColumns; ++n) EXPECT_EQ(result.c[r][n], at(r, n)) << r << " " << n;
  }
}

TEST(MatrixProduct, EachElementMeetsItsOwn) {
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      Matrices m;
      m.a[row][k] = 2.0F;
      for (int i = 0; i < kDepth; ++i) {
        for (int n = 0; n < kColumns; ++n) m.b[i][n] = at(i, n);
      }
      const Matrices result = multiplied(m);
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kColumns; ++n)
          ASSERT_EQ(result.c[r][n], r == row ? 2.0F * at(k, n) : 0.0F) << row << " " << k;
      }
    }
  }
}

TEST(MatrixProduct, AddsToWhatIsThere) {
  Matrices m;
  for (int r = 0; r < kRows; ++r) {
    for (int k = 0; k < kDepth; ++k) m.a[r][k] = at(r, k);
    for (int n = 0; n < kColumns; ++n) m.c[r][n] = 0.5F * at(n, r);
  }
  for (int k = 0; k < kDepth; ++k) {
    for (int n = 0; n < kColumns; ++n) m.b[k][n] = at(n, k);
  }
  const Matrices result = multiplied(m);
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kColumns; ++n) {
      float expected = m.c[r][n];
      for (int k = 0; k < kDepth; ++k) expected += m.a[r][k] * m.b[k][n];
      EXPECT_EQ(result.c[r][n], expected);
    }
  }
}

__global__ void multiply_by_some(Matrices* m) {
  float c[4] = {};
  if (threadIdx.x != 5) mma_m16n8k16(c, {0, 0, 0, 0}, {0, 0});
  m->c[0][0] = c[0];
}
__global__ void multiply_at_two_places(Matrices* m) {
  float c[4] = {};
  if (threadIdx.x != 5) {
    mma_m16n8k16(c, {0, 0, 0, 0}, {0, 0});
  } else {
    mma_m16n8k16(c, {0, 0, 0, 0}, {0, 0});
  }
  m->c[0][0] = c[0];
}

std::string complaint(void (*kernel)(Matrices*), unsigned threads) {
  Matrices* m = nullptr;
  gpu_check(cudaMalloc(&m, sizeof *m), "cudaMalloc");
  std::string what;
  try {
    launch(kernel, 1, threads, 0, nullptr, m);
    gpu_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  } catch (const shim::Error& error) {
    what = error.what();
  }
  cudaFree(m);
  return what;
}

TEST(MatrixProduct, WantsAllLanes) {
  EXPECT_NE(complaint(multiply_by_some, 32), "");
  EXPECT_NE(complaint(multiply_at_two_places, 32), "");
  EXPECT_THAT(complaint(multiply, 16), ::testing::HasSubstr("lanes that the block does not have"));
}

}  // namespace
}  // namespace kvscope::cuda
