// The stand-in for cuBLAS: its meaning and what it refuses.
#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "gpu_runtime.h"

namespace kvscope::cuda {
namespace {

constexpr cublasOperation_t kAsIs = CUBLAS_OP_N;
constexpr cublasOperation_t kTransposed = CUBLAS_OP_T;

class ShimCublas : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS); }
  void TearDown() override { cublasDestroy(handle_); }

  // Column-major c [m × n] = op(a) [m × k] · op(b) [k × n], c's columns packed.
  cublasStatus_t multiply(cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                          const std::vector<float>& a, int stride_a, const std::vector<float>& b,
                          int stride_b, std::vector<float>& c, float beta = 0,
                          cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
    const float one = 1;
    const cublasStatus_t status = cublasGemmEx(
        handle_, op_a, op_b, m, n, k, &one, a.data(), CUDA_R_32F, stride_a, b.data(), CUDA_R_32F,
        stride_b, &beta, c.data(), CUDA_R_32F, m, compute, CUBLAS_GEMM_DEFAULT);
    cudaDeviceSynchronize();
    return status;
  }

  cublasHandle_t handle_ = nullptr;
};

// [1 3 5; 2 4 6] · [1 3; 2 4; 0 1] = [7 20; 10 28]
TEST_F(ShimCublas, Literal) {
  const std::vector<float> a{1, 2, 3, 4, 5, 6};
  const std::vector<float> a_transposed{1, 3, 5, 2, 4, 6};
  const std::vector<float> b{1, 2, 0, 3, 4, 1};
  const std::vector<float> b_transposed{1, 3, 2, 4, 0, 1};
  const std::vector<float> product{7, 10, 20, 28};
  std::vector<float> c(4, NAN);  // with beta 0 it is not read
  EXPECT_EQ(multiply(kAsIs, kAsIs, 2, 2, 3, a, 2, b, 3, c), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c, product);
  EXPECT_EQ(multiply(kTransposed, kAsIs, 2, 2, 3, a_transposed, 3, b, 3, c), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c, product);
  EXPECT_EQ(multiply(kAsIs, kTransposed, 2, 2, 3, a, 2, b_transposed, 2, c, 0,
                     CUBLAS_COMPUTE_32F_PEDANTIC),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c, product);
  EXPECT_EQ(multiply(kAsIs, kAsIs, 2, 2, 3, a, 2, b, 3, c, 2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c, (std::vector<float>{21, 30, 60, 84}));
}

TEST_F(ShimCublas, StridesBeyondTheMatrix) {
  const std::vector<float> a{1, 2, 99, 3, 4, 99, 5, 6, 99};
  const std::vector<float> b{1, 2, 0, 99, 3, 4, 1, 99};
  std::vector<float> c(4);
  EXPECT_EQ(multiply(kAsIs, kAsIs, 2, 2, 3, a, 3, b, 4, c), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c, (std::vector<float>{7, 10, 20, 28}));
}

TEST_F(ShimCublas, RoundedOperandsAndBatches) {
  const float one = 1;
  const float zero = 0;
  // 1 × 1 products of length 2, two batches; 1.00390625 needs more bits than bf16 has.
  std::vector<__nv_bfloat16> a;
  std::vector<__nv_bfloat16> b;
  for (const float x : {1.0F, 2.0F, 3.0F, 4.0F}) a.push_back(__float2bfloat16(x));
  for (const float x : {1.00390625F, 1.0F, 0.5F, 0.25F}) b.push_back(__float2bfloat16(x));
  std::vector<float> c(2);
  ASSERT_EQ(
      cublasGemmStridedBatchedEx(handle_, kTransposed, kAsIs, 1, 1, 2, &one, a.data(), CUDA_R_16BF,
                                 2, 2, b.data(), CUDA_R_16BF, 2, 2, &zero, c.data(), CUDA_R_32F, 1,
                                 1, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      CUBLAS_STATUS_SUCCESS);
  cudaDeviceSynchronize();
  EXPECT_EQ(c, (std::vector<float>{3.0F, 2.5F}));
}

TEST_F(ShimCublas, Arguments) {
  const std::vector<float> a(6, 1);
  const std::vector<float> b(6, 1);
  std::vector<float> c(4);
  EXPECT_EQ(multiply(kAsIs, kAsIs, 2, 2, 3, a, 1, b, 3, c), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(kTransposed, kAsIs, 2, 2, 3, a, 2, b, 3, c), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(kAsIs, kAsIs, 2, 2, 3, a, 2, b, 2, c), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(kAsIs, kTransposed, 2, 2, 3, a, 2, b, 1, c), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(kAsIs, kAsIs, -1, 2, 3, a, 2, b, 3, c), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(kAsIs, kAsIs, 2, 2, 3, a, 2, b, 3, c, 0, CUBLAS_COMPUTE_16F),
            CUBLAS_STATUS_NOT_SUPPORTED);
  const float one = 1;
  EXPECT_EQ(cublasGemmEx(nullptr, kAsIs, kAsIs, 1, 1, 1, &one, a.data(), CUDA_R_32F, 1, b.data(),
                         CUDA_R_32F, 1, &one, c.data(), CUDA_R_32F, 1, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasGemmEx(handle_, kAsIs, kAsIs, 1, 1, 1, &one, a.data(), CUDA_R_32F, 1, b.data(),
                         CUDA_R_16BF, 1, &one, c.data(), CUDA_R_32F, 1, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_SUPPORTED);
  alignas(256) static std::byte workspace[512];
  EXPECT_EQ(cublasSetWorkspace(handle_, workspace, 256), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetWorkspace(handle_, workspace + 16, 256), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetMathMode(handle_, CUBLAS_PEDANTIC_MATH), CUBLAS_STATUS_SUCCESS);
}

// As with cuBLAS, bits belong to the shape of a product: callers must not count on more.
TEST_F(ShimCublas, SumsDependOnTheShape) {
  constexpr int kLength = 300;
  constexpr int kColumns = 50;
  std::vector<float> a;
  for (int i = 0; i < kLength; ++i) a.push_back(1.0F / float(i + 1));
  const std::vector<float> b(kLength * kColumns, 1.0F / 3);
  std::vector<float> one(1);
  std::vector<float> many(kColumns);
  ASSERT_EQ(multiply(kTransposed, kAsIs, 1, 1, kLength, a, kLength, b, kLength, one),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(kTransposed, kAsIs, 1, kColumns, kLength, a, kLength, b, kLength, many),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(one[0], many[0]);
  EXPECT_NEAR(one[0], many[0], 1e-5);
  EXPECT_EQ(many[0], many[kColumns - 1]);
}

}  // namespace
}  // namespace kvscope::cuda
