// Attention weights of prompt rows on columns, from the rows' log-sum-exps: summed over the rows in
// order, or as they are. A block computes the weights of a tile of rows on the slots of a few
// pages; its warps take rows of their own, so that the pages' keys stay near.
#include "gpu_runtime.h"
#include "runner/backend/cuda/attend_chunk_warp.h"
#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/prompt_attention.h"

namespace kvscope::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kBlocks = 2;  // per multiprocessor, at least
constexpr int kWarpRows = 4;
constexpr int kTileRows = kWarps * kWarpRows;
constexpr int kTileSlots = kPagesAtOnce * kPageSlots;

// What both kernels have in common: prompt rows first_row … first_row + n_rows - 1 of one head.
struct WeightRows {
  std::byte* const* pages;  // of the KV head
  const float* q;           // of the head: row r at q + r · q_stride
  std::size_t q_stride;
  const float* lse;  // [n_prompt] of the head
  int n_rows;
  int first_row;
  int n_prompt;
};
template <class Job>
__device__ WeightRows rows_of_head(const Job& job, int head, int head_dim) {
  return {job.heads[head / job.counts.group()].pages,
          job.q + std::size_t(head) * head_dim,
          std::size_t(job.counts.n_heads) * head_dim,
          job.lse + std::size_t(head) * job.n_prompt,
          job.n_rows,
          job.first_row,
          job.n_prompt};
}

// Calls store(n, k, sees, weight) with exp(z − lse) of rows first … first + kWarpRows - 1 on page
// first_page + k, a slot a lane. sees: whether there is such a row and slot and the row sees it;
// the weight is anything otherwise. q: shared memory of this warp, [kWarpRows][head_dim].
template <SlotFormat kFormat, class Store>
__device__ inline void weigh_tile(const WeightRows& rows, int first, int first_page, int head_dim,
                                  int lane, float* q, const Store& store) {
#pragma unroll
  for (int n = 0; n < kWarpRows; ++n) {
    const int row = min(first + n, rows.n_rows - 1);
    for (int i = lane; i < head_dim; i += kWarpSize)
      q[n * head_dim + i] = rows.q[row * rows.q_stride + i];
  }
  __syncwarp();
  const int last_page = (rows.n_prompt - 1) / kPageSlots;
  const std::byte* pages[kPagesAtOnce];
#pragma unroll
  for (int k = 0; k < kPagesAtOnce; ++k) pages[k] = rows.pages[min(first_page + k, last_page)];
  float z[kPagesAtOnce][kWarpRows];
  logits_of_pages<kFormat, kPagesAtOnce, kWarpRows>(pages, head_dim, q, head_dim, lane, z);
#pragma unroll
  for (int n = 0; n < kWarpRows; ++n) {
    const int row = min(first + n, rows.n_rows - 1);
    const float lse = rows.lse[rows.first_row + row];
#pragma unroll
    for (int k = 0; k < kPagesAtOnce; ++k) {
      const int slot = (first_page + k) * kPageSlots + lane;
      store(n, k, first + n < rows.n_rows && slot <= rows.first_row + row, expf(z[k][n] - lse));
    }
  }
  __syncwarp();  // the next tile's q overwrite these
}

// Shared memory: q of each warp's rows, then the tile's terms [kTileRows][kTileSlots].
constexpr std::size_t shared_floats(int head_dim, bool with_terms) {
  return std::size_t(kTileRows) * (head_dim + (with_terms ? kTileSlots : 0));
}

template <SlotFormat kFormat>
__global__ void __launch_bounds__(kThreads, kBlocks)
    column_weights_kernel(ColumnWeights job, PageLayout layout) {
  KSMEM(shared);
  const int thread = int(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int warp = thread / kWarpSize;
  const int head = int(blockIdx.y);
  const int head_dim = layout.head_dim;
  float* q = reinterpret_cast<float*>(shared);
  float* terms = q + kTileRows * head_dim;
  const WeightRows rows = rows_of_head(job, head, head_dim);
  const int first_page = int(blockIdx.x) * kPagesAtOnce;
  const int first_slot = first_page * kPageSlots;

  float sum = 0.0F;
  // Earlier rows see none of these slots.
  for (int first = max(0, first_slot - job.first_row); first < job.n_rows; first += kTileRows) {
    const int first_of_warp = first + warp * kWarpRows;
    weigh_tile<kFormat>(rows, first_of_warp, first_page, head_dim, lane,
                        q + warp * kWarpRows * head_dim,
                        [&](int n, int k, bool sees, float weight) {
                          terms[(warp * kWarpRows + n) * kTileSlots + k * kPageSlots + lane] =
                              sees ? job.row_weight[first_of_warp + n] * weight : 0.0F;
                        });
    __syncthreads();
    if (thread < kTileSlots) {
      // A row that does not see the slot adds 0, which changes no bit.
#pragma unroll 8
      for (int n = 0; n < kTileRows; ++n) sum += terms[n * kTileSlots + thread];
    }
    __syncthreads();
  }
  const int slot = first_slot + thread;
  if (thread < kTileSlots && slot < job.n_prompt)
    job.out[std::size_t(head) * job.n_prompt + slot] = sum;
}

template <SlotFormat kFormat>
__global__ void __launch_bounds__(kThreads, kBlocks)
    attention_rows_kernel(AttentionRows job, PageLayout layout) {
  KSMEM(shared);
  const int lane = int(threadIdx.x) % kWarpSize;
  const int warp = int(threadIdx.x) / kWarpSize;
  const int head = int(blockIdx.y);
  const int head_dim = layout.head_dim;
  const WeightRows rows = rows_of_head(job, head, head_dim);
  const int first_page = int(blockIdx.x) * kPagesAtOnce;
  const int first = (int(blockIdx.z) * kWarps + warp) * kWarpRows;
  const int last = min(first + kWarpRows, job.n_rows) - 1;
  if (first > last || first_page * kPageSlots > job.first_row + last) return;  // nothing to see
  weigh_tile<kFormat>(rows, first, first_page, head_dim, lane,
                      reinterpret_cast<float*>(shared) + warp * kWarpRows * head_dim,
                      [&](int n, int k, bool sees, float weight) {
                        const std::size_t row = std::size_t(first + n) * job.counts.n_heads + head;
                        if (sees)
                          job.out[row * job.n_prompt + (first_page + k) * kPageSlots + lane] =
                              weight;
                      });
}

unsigned tiles_of(int n, int per_tile) { return unsigned((n + per_tile - 1) / per_tile); }

}  // namespace

void column_weights(const ColumnWeights& job, PageLayout layout, cudaStream_t stream) {
  if (job.n_prompt == 0) return;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(column_weights_kernel<kFormat>,
           dim3(tiles_of(job.n_prompt, kTileSlots), job.counts.n_heads), dim3(kThreads),
           shared_floats(layout.head_dim, true) * sizeof(float), stream, job, layout);
  });
}

void attention_rows(const AttentionRows& job, PageLayout layout, cudaStream_t stream) {
  if (job.n_rows == 0) return;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(attention_rows_kernel<kFormat>,
           dim3(tiles_of(job.first_row + job.n_rows, kTileSlots), job.counts.n_heads,
                tiles_of(job.n_rows, kTileRows)),
           dim3(kThreads), shared_floats(layout.head_dim, false) * sizeof(float), stream, job,
           layout);
  });
}

}  // namespace kvscope::cuda
