#include "runner/backend/cuda/elementwise.h"

#include "runner/backend/cuda/block_reduce.h"
#include "runner/backend/cuda/quads.h"

namespace kvscope::cuda {

namespace {

constexpr int kThreads = 256;

// Blocks over rows of a width: a thread has one quad of one row.
struct RowBlocks {
  int threads = kThreads;
  int per_row = 1;
};
RowBlocks blocks_for(int width) {
  const int quads = quads_of(width);
  const int threads = threads_for(quads, kThreads);
  return {threads, (quads + threads - 1) / threads};
}
dim3 grid_of(int rows, RowBlocks blocks) { return dim3(unsigned(rows) * unsigned(blocks.per_row)); }

// Row and first element of a thread.
struct RowQuad {
  std::size_t row;
  std::size_t i;
};
__device__ inline RowQuad row_quad(int blocks_per_row) {
  const unsigned part = blockIdx.x % unsigned(blocks_per_row);
  return {blockIdx.x / unsigned(blocks_per_row),
          (std::size_t(part) * blockDim.x + threadIdx.x) * kQuad};
}

template <DType kDType>
__global__ void embed_kernel(const void* table, int d_model, const std::int32_t* ids,
                             int blocks_per_row, float* out) {
  constexpr std::size_t kBytes = element_bytes(kDType);
  const RowQuad at = row_quad(blocks_per_row);
  const std::size_t d = d_model;
  const auto* row = static_cast<const std::byte*>(table) + std::size_t(ids[at.row]) * d * kBytes;
  store_quad(out + at.row * d, at.i, d, load_quad<kDType>(row, at.i, d));
}

__global__ void copy_rows_kernel(const float* x, int width, const std::int32_t* rows,
                                 int blocks_per_row, float* out) {
  const RowQuad at = row_quad(blocks_per_row);
  const std::size_t n = width;
  store_quad(out + at.row * n, at.i, n, load_quad(x + std::size_t(rows[at.row]) * n, at.i, n));
}

__device__ inline float silu_product(float gate, float up) {
  return gate / (1.0F + expf(-gate)) * up;
}
__global__ void swiglu_kernel(const float* gate_up, int d_ff, int blocks_per_row, float* y) {
  const RowQuad at = row_quad(blocks_per_row);
  const std::size_t n = d_ff;
  const float* row = gate_up + at.row * 2 * n;
  const float4 gate = load_quad(row, at.i, n);
  const float4 up = load_quad(row + n, at.i, n);
  store_quad(y + at.row * n, at.i, n,
             {silu_product(gate.x, up.x), silu_product(gate.y, up.y), silu_product(gate.z, up.z),
              silu_product(gate.w, up.w)});
}

__global__ void add_kernel(const float* x, std::size_t n, float* y) {
  const std::size_t i = (std::size_t(blockIdx.x) * blockDim.x + threadIdx.x) * kQuad;
  const float4 a = load_quad(x, i, n);
  const float4 b = load_quad(y, i, n);
  store_quad(y, i, n, {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w});
}

template <DType kDType>
__global__ void to_dtype_kernel(const float* x, std::size_t n_values, std::size_t n_padded,
                                void* out) {
  const std::size_t i = (std::size_t(blockIdx.x) * blockDim.x + threadIdx.x) * kQuad;
  store_quad<kDType>(out, i, n_padded, load_quad(x, i, n_values));
}

// One block a row.
__global__ void rms_norm_kernel(const float* x, const float* weight, float eps, int d, float* y) {
  KSHARED(float, scratch, kMostWarps);
  const std::size_t n = d;
  const float* row = x + std::size_t(blockIdx.x) * n;
  float* out = y + std::size_t(blockIdx.x) * n;
  const std::size_t stride = std::size_t(blockDim.x) * kQuad;
  float sum = 0.0F;
  for (std::size_t i = std::size_t(threadIdx.x) * kQuad; i < n; i += stride) {
    const float4 v = load_quad(row, i, n);
    sum = fmaf(v.x, v.x, sum);
    sum = fmaf(v.y, v.y, sum);
    sum = fmaf(v.z, v.z, sum);
    sum = fmaf(v.w, v.w, sum);
  }
  const float scale = 1.0F / sqrtf(block_sum(sum, scratch) / float(d) + eps);
  for (std::size_t i = std::size_t(threadIdx.x) * kQuad; i < n; i += stride) {
    const float4 v = load_quad(row, i, n);
    const float4 w = load_quad(weight, i, n);
    store_quad(out, i, n,
               {v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w});
  }
}

dim3 flat_grid(std::size_t n) {
  constexpr std::size_t kPerBlock = std::size_t(kThreads) * kQuad;
  return dim3(unsigned((n + kPerBlock - 1) / kPerBlock));
}

}  // namespace

void embed(const void* table, DType dtype, int d_model, const std::int32_t* ids, int n, float* out,
           cudaStream_t stream) {
  if (n == 0) return;
  const RowBlocks blocks = blocks_for(d_model);
  auto* kernel = dtype == DType::kF32    ? embed_kernel<DType::kF32>
                 : dtype == DType::kBF16 ? embed_kernel<DType::kBF16>
                                         : embed_kernel<DType::kF16>;
  launch(kernel, grid_of(n, blocks), dim3(unsigned(blocks.threads)), 0, stream, table, d_model, ids,
         blocks.per_row, out);
}

void rms_norm(const float* x, const float* weight, float eps, int rows, int d, float* y,
              cudaStream_t stream) {
  if (rows == 0) return;
  launch(rms_norm_kernel, dim3(unsigned(rows)), dim3(unsigned(threads_for(quads_of(d), kThreads))),
         0, stream, x, weight, eps, d, y);
}

void swiglu(const float* gate_up, int rows, int d_ff, float* y, cudaStream_t stream) {
  if (rows == 0) return;
  const RowBlocks blocks = blocks_for(d_ff);
  launch(swiglu_kernel, grid_of(rows, blocks), dim3(unsigned(blocks.threads)), 0, stream, gate_up,
         d_ff, blocks.per_row, y);
}

void add(const float* x, std::size_t n, float* y, cudaStream_t stream) {
  if (n == 0) return;
  launch(add_kernel, flat_grid(n), dim3(kThreads), 0, stream, x, n, y);
}

void copy_rows(const float* x, int width, const std::int32_t* rows, int n, float* out,
               cudaStream_t stream) {
  if (n == 0) return;
  const RowBlocks blocks = blocks_for(width);
  launch(copy_rows_kernel, grid_of(n, blocks), dim3(unsigned(blocks.threads)), 0, stream, x, width,
         rows, blocks.per_row, out);
}

void to_dtype(const float* x, std::size_t n_values, std::size_t n_padded, DType dtype, void* out,
              cudaStream_t stream) {
  if (n_padded == 0) return;
  auto* kernel = dtype == DType::kF32    ? to_dtype_kernel<DType::kF32>
                 : dtype == DType::kBF16 ? to_dtype_kernel<DType::kBF16>
                                         : to_dtype_kernel<DType::kF16>;
  launch(kernel, flat_grid(n_padded), dim3(kThreads), 0, stream, x, n_values, n_padded, out);
}

}  // namespace kvscope::cuda
