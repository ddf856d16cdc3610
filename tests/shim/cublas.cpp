// The cuBLAS calls that the backend makes, with cuBLAS' column-major meaning and its checks of
// arguments, so that sizes, transposes, strides and types of a call are tested. Sums are float32.
// As cuBLAS' kernels do, they add in an order that depends on the product's shape.
#include <cublas_v2.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "tests/shim/gpu_runtime.h"
#include "tests/shim/machine.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
};

namespace kvscope::shim {
namespace {

bool is_known(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

float load(const void* p, std::int64_t i, cudaDataType type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(p)[i];
  if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(p)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
}

void store(void* p, std::int64_t i, cudaDataType type, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(p)[i] = value;
  } else if (type == CUDA_R_16F) {
    static_cast<__half*>(p)[i] = __float2half(value);
  } else {
    static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(value);
  }
}

struct Operand {
  const void* p;
  cudaDataType type;
  int stride;  // between columns
  std::int64_t batch_stride;
};

// op(operand) of one batch: [n_columns][n_rows] float32, column by column.
std::vector<float> widened(const Operand& operand, int batch, bool transposed, int n_rows,
                           int n_columns) {
  std::vector<float> values(std::size_t(n_rows) * n_columns);
  const std::int64_t first = batch * operand.batch_stride;
  for (int column = 0; column < n_columns; ++column) {
    for (int row = 0; row < n_rows; ++row) {
      const std::int64_t i = transposed ? column + std::int64_t{row} * operand.stride
                                        : row + std::int64_t{column} * operand.stride;
      values[std::size_t(column) * n_rows + row] = load(operand.p, first + i, operand.type);
    }
  }
  return values;
}

struct Product {
  int m, n, k;
  bool a_transposed, b_transposed;
  Operand a, b, c;
  float alpha, beta;
};

void multiply(const Product& product, int batch) {
  const auto [m, n, k] = std::tuple(product.m, product.n, product.k);
  const std::vector<float> a = widened(product.a, batch, product.a_transposed, m, k);
  const std::vector<float> b = widened(product.b, batch, product.b_transposed, k, n);
  const int first = k > 0 ? (m + 3 * n) % k : 0;  // of the sums: another for another shape
  std::vector<float> sums(m);
  for (int column = 0; column < n; ++column) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (int step = 0; step < k; ++step) {
      const int l = (first + step) % k;
      const float factor = b[std::size_t(column) * k + l];
      const float* a_column = a.data() + std::size_t(l) * m;
      for (int row = 0; row < m; ++row) sums[row] += a_column[row] * factor;
    }
    for (int row = 0; row < m; ++row) {
      const std::int64_t i =
          batch * product.c.batch_stride + row + std::int64_t{column} * product.c.stride;
      auto* to = const_cast<void*>(product.c.p);
      float value = product.alpha * sums[row];
      if (product.beta != 0.0F) value += product.beta * load(to, i, product.c.type);
      store(to, i, product.c.type, value);
    }
  }
}

}  // namespace
}  // namespace kvscope::shim

namespace shim = kvscope::shim;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (shim::device_state() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  constexpr std::uintptr_t kAlignment = 256;
  return reinterpret_cast<std::uintptr_t>(workspace) % kAlignment == 0
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType type_a, int stride_a, long long batch_stride_a,
    const void* b, cudaDataType type_b, int stride_b, long long batch_stride_b, const void* beta,
    void* c, cudaDataType type_c, int stride_c, long long batch_stride_c, int n_batches,
    cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool a_transposed = op_a != CUBLAS_OP_N;
  const bool b_transposed = op_b != CUBLAS_OP_N;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || n_batches < 0 || stride_a < std::max(1, a_transposed ? k : m) ||
      stride_b < std::max(1, b_transposed ? n : k) || stride_c < std::max(1, m) ||
      alpha == nullptr || beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_PEDANTIC) ||
      type_a != type_b || !shim::is_known(type_a) || (type_c != type_a && type_c != CUDA_R_32F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (shim::device_state() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const shim::Product product{m,
                              n,
                              k,
                              a_transposed,
                              b_transposed,
                              {a, type_a, stride_a, batch_stride_a},
                              {b, type_b, stride_b, batch_stride_b},
                              {c, type_c, stride_c, batch_stride_c},
                              *static_cast<const float*>(alpha),
                              *static_cast<const float*>(beta)};
  shim::enqueue(handle->stream, [=] {
    for (int batch = 0; batch < n_batches; ++batch) shim::multiply(product, batch);
  });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType type_a, int stride_a, const void* b, cudaDataType type_b,
                            int stride_b, const void* beta, void* c, cudaDataType type_c,
                            int stride_c, cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, stride_a, 0, b,
                                    type_b, stride_b, 0, beta, c, type_c, stride_c, 0, 1, compute,
                                    algorithm);
}

}  // extern "C"
