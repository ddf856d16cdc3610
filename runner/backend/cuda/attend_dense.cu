// Dense causal attention of prompt rows (bf16 pages: attend_dense_tensor.cu). A block takes
// neighbouring queries of one KV head, in order of row and then of head, so that its warps read the
// same pages at about the same time; each warp goes through the chunks that its own queries see.
#include "gpu_runtime.h"
#include "runner/backend/cuda/attend_chunk_warp.h"
#include "runner/backend/cuda/attend_dense_tensor.h"
#include "runner/backend/cuda/dense_query.h"
#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/prompt_attention.h"

namespace kvscope::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
// Per multiprocessor. Said explicitly, as the compiler spills registers where it hopes for more.
constexpr int kBlocks = 2;

// Below so many warps a GPU of today has idle schedulers, and fewer queries a warp are faster.
constexpr int kWarpsWanted = 2048;

// Shared memory of a warp, in floats.
__host__ __device__ constexpr int warp_floats(int n_queries, int head_dim) {
  return n_queries * (kChunkSlots + (head_dim + 3) / 4 * 4);
}

template <SlotFormat kFormat, int kQueries, int kDims>
__global__ void __launch_bounds__(kThreads, kBlocks)
    attend_dense_kernel(DenseRows job, PageLayout layout) {
  KSMEM(shared);
  const int lane = int(threadIdx.x) % kWarpSize;
  // Taken from lane 0 so that the compiler knows it to be alike in all lanes.
  const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / kWarpSize, 0);
  const int kv_head = int(blockIdx.y);
  const int head_dim = layout.head_dim;
  float* p = reinterpret_cast<float*>(shared) + warp * warp_floats(kQueries, head_dim);
  float* q = p + kQueries * kChunkSlots;

  // The longest rows first: begun last, they would be what everything waits for.
  const int tile = int(gridDim.x - 1 - blockIdx.x);
  const int first_query = (tile * kWarps + warp) * kQueries;
  const int n_queries = job.n_rows * job.counts.group();
  int visible[kQueries];  // slots; 0: no such query
  int most = 0;
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    const DenseQuery query(job, kv_head, min(first_query + n, n_queries - 1));
    visible[n] = first_query + n < n_queries ? job.slots_before + query.row + 1 : 0;
    most = max(most, visible[n]);
    const float* from = job.q + query.offset(job, head_dim);
    for (int i = lane; i < head_dim; i += kWarpSize) q[n * head_dim + i] = from[i];
  }
  __syncwarp();

  WarpQueries<kQueries, kDims> queries;
  for (int first = 0; first < most; first += kChunkSlots) {
    int seen[kQueries];
#pragma unroll
    for (int n = 0; n < kQueries; ++n) seen[n] = max(0, min(kChunkSlots, visible[n] - first));
    const int n_slots = min(kChunkSlots, most - first);
    const ChunkPages chunk{job.heads[kv_head].pages + first / kPageSlots,
                           (n_slots + kPageSlots - 1) / kPageSlots};
    attend_chunk<kFormat, kQueries, kDims>(chunk, layout, q, seen, lane, p, queries);
  }

#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    if (visible[n] == 0) continue;
    const DenseQuery query(job, kv_head, first_query + n);
    float* to = job.out + query.offset(job, head_dim);
    const float inverse = 1.0F / queries.state[n].sum;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
      const int i = k * kWarpSize + lane;
      if (i < head_dim) to[i] = queries.o[n][k] * inverse;
    }
    if (job.lse != nullptr && lane == 0) {
      job.lse[query.head * job.lse_stride + query.row] =
          queries.state[n].max + float(log(double(queries.state[n].sum)));
    }
  }
}

}  // namespace

void attend_dense(const DenseRows& job, PageLayout layout, cudaStream_t stream) {
  if (job.n_rows == 0) return;
  const int n_queries = job.n_rows * job.counts.group();  // of each KV head
  const auto run = [&]<SlotFormat kFormat, int kQueries, int kDims>() {
    const int block_queries = kWarps * kQueries;
    launch(attend_dense_kernel<kFormat, kQueries, kDims>,
           dim3((n_queries + block_queries - 1) / block_queries, job.counts.n_kv_heads),
           dim3(kThreads), kWarps * warp_floats(kQueries, layout.head_dim) * sizeof(float), stream,
           job, layout);
  };
  const bool many = n_queries * job.counts.n_kv_heads >= 4 * kWarpsWanted;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    if constexpr (kFormat == SlotFormat::kBF16) {
      attend_dense_tensor(job, layout, stream);
    } else {
      with_lane_dims(layout.head_dim, [&]<int kDims>() {
        // The sums of more dimensions leave registers for two queries only.
        if constexpr (kDims <= 4) {
          if (many) return run.template operator()<kFormat, 4, kDims>();
        }
        run.template operator()<kFormat, 2, kDims>();
      });
    }
  });
}

}  // namespace kvscope::cuda
