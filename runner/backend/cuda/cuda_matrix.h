// Weights on the device, row-major in their element type, and their products by cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <span>

#include "runner/backend/backend.h"
#include "runner/backend/cuda/device_buffer.h"

namespace kvscope::cuda {

class CudaMatrix final : public PackedMatrix {
 public:
  // Reads and uploads the rows in blocks. staging: of float32 rows, shared between matrices.
  CudaMatrix(const ReadRows& rows, int n_out, int n_in, DType dtype, UnifiedMemory& memory,
             cudaStream_t stream);

  int n_out() const override { return n_out_; }
  int n_in() const override { return n_in_; }
  std::size_t bytes() const override { return weights_.size(); }
  DType dtype() const { return dtype_; }
  const void* data() const { return weights_.data(); }

 private:
  int n_out_;
  int n_in_;
  DType dtype_;
  DeviceBuffer weights_;  // [n_out][n_in]
};

class CudaEmbedding final : public EmbeddingTable {
 public:
  CudaEmbedding(const ReadRows& rows, int n_vocab, int d_model, DType dtype, UnifiedMemory& memory,
                cudaStream_t stream)
      : table_(rows, n_vocab, d_model, dtype, memory, stream) {}
  const CudaMatrix& table() const { return table_; }

 private:
  CudaMatrix table_;
};

// Products of rows with a matrix. cuBLAS picks its kernel by the shape of the product, and kernels
// differ in the order of their sums: so rows are cut into blocks of one size a kind, the last one
// padded with zeros, and a row meets the same kernel whatever lies beside it.
class Products {
 public:
  Products(UnifiedMemory& memory, cudaStream_t stream);
  ~Products();
  Products(const Products&) = delete;

  // A block of steps is multiplied in about the time that reading the weights takes (some 200 rows
  // on an H100 or H200, 150 on an A100), and 48 arms of three rows fit into it; a block of a pass
  // keeps the multipliers busy.
  static constexpr int block_rows(RowKind kind) { return kind == RowKind::kStep ? 192 : 512; }

  // x: [rows][n_in], y: [rows][n_out] float32, device-visible.
  void multiply(const CudaMatrix& w, const float* x, int rows, RowKind kind, float* y);

  // The bare product of device memory, in one call whatever its shape: w [n_out][n_in] and x
  // [rows][n_in] of `dtype`, y [rows][n_out] float32.
  void multiply_at_once(const void* w, const void* x, int rows, int n_out, int n_in, DType dtype,
                        float* y) const;

  void release() {  // buffers of rows
    operand_.release();
    product_.release();
  }

 private:
  cudaStream_t stream_;
  cublasHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
  DeviceBuffer operand_;  // [block][n_in] in the matrix's element type
  DeviceBuffer product_;  // [block][n_out] of a padded block
};

}  // namespace kvscope::cuda
