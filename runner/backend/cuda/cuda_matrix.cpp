#include "runner/backend/cuda/cuda_matrix.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runner/backend/cuda/cuda_error.h"
#include "runner/backend/cuda/elementwise.h"

namespace kvscope::cuda {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw DeviceOutOfMemory(std::string(call) + ": no memory left");
  throw CudaError(std::string(call) + ": cuBLAS status " + std::to_string(int(status)));
}

cudaDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kF32:
      break;
  }
  return CUDA_R_32F;
}

// Rows read at once while packing, in bytes of float32.
constexpr std::size_t kStagingBytes = std::size_t{32} << 20;

}  // namespace

CudaMatrix::CudaMatrix(const ReadRows& rows, int n_out, int n_in, DType dtype,
                       UnifiedMemory& memory, cudaStream_t stream)
    : n_out_(n_out),
      n_in_(n_in),
      dtype_(dtype),
      weights_(memory, std::size_t(n_out) * n_in * element_bytes(dtype)) {
  const int block = int(std::clamp<std::size_t>(kStagingBytes / (std::size_t(n_in) * sizeof(float)),
                                                1, std::size_t(n_out)));
  std::vector<float> host(std::size_t(block) * n_in);
  DeviceBuffer staging(memory, host.size() * sizeof(float));
  for (int first = 0; first < n_out; first += block) {
    const int n = std::min(block, n_out - first);
    const std::size_t values = std::size_t(n) * n_in;
    rows(first, n, host.data());
    gpu_check(cudaMemcpyAsync(staging.data(), host.data(), values * sizeof(float),
                              cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
    auto* to =
        static_cast<std::byte*>(weights_.data()) + std::size_t(first) * n_in * element_bytes(dtype);
    to_dtype(static_cast<const float*>(staging.data()), values, values, dtype, to, stream);
    gpu_check(cudaStreamSynchronize(stream),
              "cudaStreamSynchronize");  // the host's block is reused
  }
}

Products::Products(UnifiedMemory& memory, cudaStream_t stream)
    : stream_(stream), workspace_(memory), operand_(memory), product_(memory) {
  // NVIDIA's advice for sm_90; set by hand, because results may depend on it.
  constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
  check(cublasCreate(&handle_), "cublasCreate");
  check(cublasSetStream(handle_, stream), "cublasSetStream");
  check(cublasSetWorkspace(handle_, workspace_.get<std::byte>(kWorkspaceBytes), kWorkspaceBytes),
        "cublasSetWorkspace");
}

Products::~Products() {
  if (handle_ != nullptr) cublasDestroy(handle_);
}

void Products::multiply(const CudaMatrix& w, const float* x, int rows, RowKind kind, float* y) {
  const int block = block_rows(kind);
  const auto n_in = std::size_t(w.n_in());
  const auto n_out = std::size_t(w.n_out());
  for (int first = 0; first < rows; first += block) {
    const int n = std::min(block, rows - first);
    const bool padded = n < block;
    const void* operand = x + first * n_in;
    if (padded || w.dtype() != DType::kF32) {
      void* rounded = operand_.get<std::byte>(block * n_in * element_bytes(w.dtype()));
      to_dtype(x + first * n_in, n * n_in, block * n_in, w.dtype(), rounded, stream_);
      operand = rounded;
    }
    float* product = padded ? product_.get<float>(block * n_out) : y + first * n_out;
    multiply_at_once(w.data(), operand, block, w.n_out(), w.n_in(), w.dtype(), product);
    if (padded) {
      gpu_check(cudaMemcpyAsync(y + first * n_out, product, n * n_out * sizeof(float),
                                cudaMemcpyDefault, stream_),
                "cudaMemcpyAsync");
    }
  }
}

void Products::multiply_at_once(const void* w, const void* x, int rows, int n_out, int n_in,
                                DType dtype, float* y) const {
  const cudaDataType type = type_of(dtype);
  const float one = 1.0F;
  const float zero = 0.0F;
  // Row-major y = x · wᵀ is column-major yᵀ = w · xᵀ.
  check(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, n_out, rows, n_in, &one, w, type, n_in, x,
                     type, n_in, &zero, y, CUDA_R_32F, n_out, CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

}  // namespace kvscope::cuda
