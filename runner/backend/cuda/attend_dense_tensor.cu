// Dense causal attention of prompt rows over bf16 pages, on tensor cores: the sums of page_tensor.h
// with sixteen queries of a KV head as rows, which a warp owns. A block's warps share each page:
// they bring it to shared memory as the products' operands, so that a lane then reads its own in
// 16 bytes. A chunk's logits wait in shared memory for the chunk's maximum.
#include "gpu_runtime.h"
#include "runner/backend/cuda/attend_dense_tensor.h"
#include "runner/backend/cuda/attend_page.h"
#include "runner/backend/cuda/dense_query.h"

namespace kvscope::cuda {

namespace {

// Per multiprocessor, which leaves a thread all the registers it can have.
constexpr int kBlocks = 2;
constexpr int kSteps = kPageSlots / kTensorDepth;  // of a page's values

// Shared memory has places for two products' operands, 16 bytes a lane. So many a warp fills at
// once …
constexpr int kOwnOperands = 4;
// … which in a block of n_warps are the keys of so many dimensions.
constexpr int staged_operands(int n_warps) { return kOwnOperands * n_warps; }
constexpr int staged_dims(int n_warps) {
  return staged_operands(n_warps) / kWarpTiles * 2 * kTensorDepth;
}

// Values meet kPassTiles · 8 columns of these pages at a time, as registers hold no more sums.
constexpr int kPassTiles = 8;
constexpr int pass_pages(int n_warps) { return staged_operands(n_warps) / kPassTiles; }

__host__ __device__ constexpr int depth_steps(int head_dim) {
  return (head_dim + kTensorDepth - 1) / kTensorDepth;
}

// Shared memory of a warp and of a block of n_warps.
constexpr std::size_t kLogitBytes = kTensorRows * kChunkSlots * sizeof(float);
constexpr std::size_t warp_bytes(int head_dim) {
  return depth_steps(head_dim) * kWarpSize * sizeof(uint4) + kLogitBytes;
}
constexpr std::size_t block_bytes(int head_dim, int n_warps) {
  return staged_operands(n_warps) * kWarpSize * sizeof(uint4) + n_warps * warp_bytes(head_dim);
}

// A lane's place in a warp's products.
struct Lane {
  int index;
  int warp;
  __device__ Lane()
      : index(int(threadIdx.x) % kWarpSize),
        // Taken from lane 0 so that the compiler knows it to be alike in all lanes.
        warp(__shfl_sync(kAllLanes, int(threadIdx.x) / kWarpSize, 0)) {}
  __device__ int row() const { return index / 4; }  // and row() + 8; also a column of b
  __device__ int quad() const { return index % 4; }
};

// What a lane brings to shared memory next, on its way while products use what is there: every
// kWarps-th of the staged operands, from the warp's number on.
template <int kWarps>
struct Ahead {
  uint4 words[kOwnOperands];

  // load_words(at): of the at-th operand, the first n.
  template <class LoadWords>
  __device__ void load(int n, const Lane& lane, const LoadWords& load_words) {
#pragma unroll
    for (int k = 0; k < kOwnOperands; ++k) {
      const int at = lane.warp + k * kWarps;
      words[k] = at < n ? load_words(at) : uint4{0, 0, 0, 0};
    }
  }
  // By all warps of the block, after what lies there has been read.
  __device__ void store(const Lane& lane, uint4* staged) const {
#pragma unroll
    for (int k = 0; k < kOwnOperands; ++k)
      staged[(lane.warp + k * kWarps) * kWarpSize + lane.index] = words[k];
  }
};

// Keys of staged_dims() dimensions from `first` on; operand two steps · kWarpTiles + tile is of
// two steps of depth.
template <int kWarps>
__device__ inline void load_keys(const std::byte* page, int first, int head_dim, const Lane& lane,
                                 Ahead<kWarps>& ahead) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(page);
  ahead.load(staged_operands(kWarps), lane, [&](int at) {
    const int pair = first / 2 + at / kWarpTiles * kTensorDepth + lane.quad();
    const int slot = at % kWarpTiles * kTensorColumns + lane.row();
    const auto word = [&](int i) {
      return pair + i < head_dim / 2 ? words[(pair + i) * kPageSlots + slot] : 0U;
    };
    return uint4{word(0), word(4), word(8), word(12)};
  });
}

// Brings values of kPassTiles · 8 dimensions from first_dim on, of n pages, or of pass_pages() if
// there are more, to shared memory; operand page · kPassTiles + tile is of both steps of depth.
// Returns whether all that this lane brought were finite. They are not on their way any earlier, as
// registers are full of sums.
template <int kWarps>
__device__ inline bool stage_values(std::byte* const* pages, int n, const PageLayout& layout,
                                    int first_dim, const Lane& lane, uint4* staged) {
  bool all_finite = true;
  const int end = min(n, pass_pages(kWarps)) * kPassTiles;
#pragma unroll 2
  for (int at = lane.warp; at < end; at += kWarps) {
    const auto* words =
        reinterpret_cast<const std::uint32_t*>(pages[at / kPassTiles] + layout.value_offset);
    const int i = first_dim + at % kPassTiles * kTensorColumns + lane.row();
    const auto word = [&](int pair) {
      return i < layout.head_dim ? words[(pair + lane.quad()) * layout.head_dim + i] : 0U;
    };
    const uint4 raw{word(0), word(4), word(8), word(12)};
    staged[at * kWarpSize + lane.index] =
        uint4{finite_or_zero(raw.x, all_finite), finite_or_zero(raw.y, all_finite),
              finite_or_zero(raw.z, all_finite), finite_or_zero(raw.w, all_finite)};
  }
  return all_finite;
}

// Adds the staged dimensions' part of the logits of a page.
__device__ inline void add_logits(const uint4* q, const uint4* staged, int n_steps, int lane,
                                  float (&z)[kWarpTiles][4]) {
#pragma unroll 1
  for (int step = 0; step < n_steps; step += 2) {
    const uint4 even = q[step * kWarpSize + lane];
    const bool has_odd = step + 1 < n_steps;
    const uint4 odd = has_odd ? q[(step + 1) * kWarpSize + lane] : uint4{0, 0, 0, 0};
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      const uint4 keys = staged[(step / 2 * kWarpTiles + tile) * kWarpSize + lane];
      mma_m16n8k16(z[tile], {even.x, even.y, even.z, even.w}, {keys.x, keys.y});
      if (has_odd) mma_m16n8k16(z[tile], {odd.x, odd.y, odd.z, odd.w}, {keys.z, keys.w});
    }
  }
}

// Slot of a page that sums i of `tile` belong to.
__device__ inline int slot_of(int tile, int i, int quad) {
  return tile * kTensorColumns + 2 * quad + i % 2;
}

// Of row (half: + 8), as warp_sum() has it with a slot a lane: the same tree.
__device__ inline float page_sum(const float (&p)[kWarpTiles][4], int half) {
  float sum[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = 2 * half + i;
    sum[i] = (p[0][at] + p[2][at]) + (p[1][at] + p[3][at]);
    sum[i] += __shfl_xor_sync(kAllLanes, sum[i], 2);
    sum[i] += __shfl_xor_sync(kAllLanes, sum[i], 1);
  }
  return sum[0] + sum[1];
}

// Turns a lane's logits of a page into weights: bf16, as the products with values want them, in
// the same place. Adds what they sum to before they are rounded. live: slots that the lane's rows
// see.
__device__ inline void weigh_page(uint4* logits, const int (&live)[2], const Lane& lane,
                                  SoftmaxState (&chunk)[2]) {
  float p[kWarpTiles][4];
#pragma unroll
  for (int tile = 0; tile < kWarpTiles; ++tile) {
    const uint4 z = logits[tile * kWarpSize];
    p[tile][0] = expf(__uint_as_float(z.x) - chunk[0].max);
    p[tile][1] = expf(__uint_as_float(z.y) - chunk[0].max);
    p[tile][2] = expf(__uint_as_float(z.z) - chunk[1].max);
    p[tile][3] = expf(__uint_as_float(z.w) - chunk[1].max);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (slot_of(tile, i, lane.quad()) >= live[i / 2]) p[tile][i] = 0.0F;
    }
  }
  chunk[0].sum += page_sum(p, 0);
  chunk[1].sum += page_sum(p, 1);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {  // sums of products lie as operands do
    const auto& low = p[2 * step];
    const auto& high = p[2 * step + 1];
    logits[step * kWarpSize] = uint4{bf16_pair(low[0], low[1]), bf16_pair(low[2], low[3]),
                                     bf16_pair(high[0], high[1]), bf16_pair(high[2], high[3])};
  }
}

// Weight of slot j for row (half: + 8), from the products' operands of a warp.
__device__ inline float weight_of(const uint4 (&a)[kSteps], int j, int half, const Lane& lane) {
  const uint4 step = j < kTensorDepth ? a[0] : a[1];
  const std::uint32_t low = half == 0 ? step.x : step.y;
  const std::uint32_t high = half == 0 ? step.z : step.w;
  const std::uint32_t pair =
      __shfl_sync(kAllLanes, (j & 8) == 0 ? low : high, lane.index / 4 * 4 + j % 8 / 2);
  return bf16_to_float(j % 2 == 0 ? pair & 0xFFFFU : pair >> 16);
}

// What the products left out of a page: values that are not finite, in order of slots, for the rows
// that see them. a: the weights. live: slots of the page that the lane's rows see.
__device__ inline void add_infinite(const std::byte* values, int first_dim, int head_dim,
                                    const uint4 (&a)[kSteps], const int (&live)[2],
                                    const Lane& lane, float (&o)[kPassTiles][4]) {
#pragma unroll  // o is in registers
  for (int tile = 0; tile < kPassTiles; ++tile) {
#pragma unroll 1
    for (int j = 0; j < kPageSlots; ++j) {
      const float p[2] = {weight_of(a, j, 0, lane), weight_of(a, j, 1, lane)};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int dim = first_dim + tile * kTensorColumns + 2 * lane.quad() + i;
        if (dim >= head_dim) continue;
        const float v = load_value<SlotFormat::kBF16>(values, head_dim, j, dim);
        if (is_finite(v)) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (j < live[half]) o[tile][2 * half + i] = fmaf(p[half], v, o[tile][2 * half + i]);
        }
      }
    }
  }
}

// Σ p v of a page.
__device__ inline void add_values(const uint4 (&a)[kSteps], const uint4* staged, int lane,
                                  float (&o)[kPassTiles][4]) {
#pragma unroll
  for (int tile = 0; tile < kPassTiles; ++tile) {
    const uint4 v = staged[tile * kWarpSize + lane];
    float page_o[4] = {};
    mma_m16n8k16(page_o, {a[0].x, a[0].y, a[0].z, a[0].w}, {v.x, v.y});
    mma_m16n8k16(page_o, {a[1].x, a[1].y, a[1].z, a[1].w}, {v.z, v.w});
#pragma unroll
    for (int i = 0; i < 4; ++i) o[tile][i] += page_o[i];
  }
}

// Grid: tiles of queries × KV heads × parts of the output's columns.
template <int kTiles, int kWarps>
__global__ void __launch_bounds__(kWarps* kWarpSize, kBlocks)
    attend_dense_tensor_kernel(DenseRows job, PageLayout layout) {
  KSMEM(shared);
  const Lane lane;
  const int kv_head = int(blockIdx.y);
  const int head_dim = layout.head_dim;
  const int n_steps = depth_steps(head_dim);
  const int first_dim = int(blockIdx.z) * kTiles * kTensorColumns;
  auto* staged = reinterpret_cast<uint4*>(shared);  // of the block
  unsigned char* own = shared + staged_operands(kWarps) * kWarpSize * sizeof(uint4) +
                       lane.warp * warp_bytes(head_dim);
  auto* q = reinterpret_cast<uint4*>(own);  // [n_steps][32], each lane's own
  auto* logits = reinterpret_cast<uint4*>(own + warp_bytes(head_dim) - kLogitBytes) + lane.index;

  // The longest rows first: begun last, they would be what everything waits for.
  const int block_tile = int(gridDim.x - 1 - blockIdx.x);
  const int n_queries = job.n_rows * job.counts.group();
  const int first_query = (block_tile * kWarps + lane.warp) * kTensorRows;
  const auto visible_to = [&](int query) {  // slots
    return job.slots_before + query / job.counts.group() + 1;
  };
  const int most_of_block = visible_to(min((block_tile + 1) * kWarps * kTensorRows, n_queries) - 1);
  const int most =
      first_query < n_queries ? visible_to(min(first_query + kTensorRows, n_queries) - 1) : 0;
  int visible[2];  // of the lane's rows; 0: no such query
  const float* from[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first_query + lane.row() + 8 * half;
    visible[half] = query < n_queries ? visible_to(query) : 0;
    from[half] = job.q + DenseQuery(job, kv_head, min(query, n_queries - 1)).offset(job, head_dim);
  }
  for (int step = 0; step < n_steps; ++step) {
    const auto pair = [&](int half, int i) {
      const int at = step * kTensorDepth + 2 * lane.quad() + i;
      return visible[half] > 0 && at < head_dim
                 ? bf16_pair(*reinterpret_cast<const float2*>(from[half] + at))
                 : 0U;
    };
    q[step * kWarpSize + lane.index] = uint4{pair(0, 0), pair(1, 0), pair(0, 8), pair(1, 8)};
  }

  SoftmaxState state[2] = {};
  float o[kTiles][4] = {};
  for (int first = 0; first < most_of_block; first += kChunkSlots) {
    std::byte* const* pages = job.heads[kv_head].pages + first / kPageSlots;
    const auto pages_of = [](int n_slots) {
      return (max(0, min(kChunkSlots, n_slots)) + kPageSlots - 1) / kPageSlots;
    };
    const int n_pages = pages_of(most_of_block - first);
    const int own_pages = pages_of(most - first);
    const int seen[2] = {visible[0] - first, visible[1] - first};

    constexpr int kStagedDims = staged_dims(kWarps);
    Ahead<kWarps> ahead;
    load_keys(pages[0], 0, head_dim, lane, ahead);
    SoftmaxState chunk[2] = {{-INFINITY, 0.0F}, {-INFINITY, 0.0F}};
#pragma unroll 1
    for (int page = 0; page < n_pages; ++page) {
      float z[kWarpTiles][4] = {};
#pragma unroll 1
      for (int dim = 0; dim < head_dim; dim += kStagedDims) {
        __syncthreads();  // what lies there has been read
        ahead.store(lane, staged);
        __syncthreads();
        if (dim + kStagedDims < head_dim) {
          load_keys(pages[page], dim + kStagedDims, head_dim, lane, ahead);
        } else if (page + 1 < n_pages) {
          load_keys(pages[page + 1], 0, head_dim, lane, ahead);
        }
        if (page < own_pages) {
          add_logits(q + dim / kTensorDepth * kWarpSize, staged,
                     depth_steps(min(kStagedDims, head_dim - dim)), lane.index, z);
        }
      }
      if (page >= own_pages) continue;
#pragma unroll
      for (int tile = 0; tile < kWarpTiles; ++tile) {
        logits[(page * kWarpTiles + tile) * kWarpSize] =
            uint4{__float_as_uint(z[tile][0]), __float_as_uint(z[tile][1]),
                  __float_as_uint(z[tile][2]), __float_as_uint(z[tile][3])};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (page * kPageSlots + slot_of(tile, i, lane.quad()) < seen[i / 2])
            chunk[i / 2].max = fmaxf(chunk[i / 2].max, z[tile][i]);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int step = 2; step > 0; step /= 2)
        chunk[half].max = fmaxf(chunk[half].max, __shfl_xor_sync(kAllLanes, chunk[half].max, step));
    }

#pragma unroll 1
    for (int page = 0; page < own_pages; ++page) {
      const int live[2] = {seen[0] - page * kPageSlots, seen[1] - page * kPageSlots};
      weigh_page(logits + page * kWarpTiles * kWarpSize, live, lane, chunk);
    }
    MergeFactors factors[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (seen[half] > 0) factors[half] = merge(state[half], chunk[half]);
    }

    constexpr int kPassPages = pass_pages(kWarps);
#pragma unroll  // o is in registers
    for (int pass = 0; pass < kTiles; pass += kPassTiles) {
      const int dim = first_dim + pass * kTensorColumns;
      float chunk_o[kPassTiles][4] = {};
#pragma unroll 1
      for (int at = 0; at < n_pages; at += kPassPages) {
        __syncthreads();  // what lies there has been read
        const bool finite =
            stage_values<kWarps>(pages + at, n_pages - at, layout, dim, lane, staged);
        const bool all_finite = __syncthreads_and(finite) != 0;
#pragma unroll 1
        for (int page = at; page < min(at + kPassPages, own_pages); ++page) {
          const uint4* weights = logits + page * kWarpTiles * kWarpSize;
          const uint4 a[kSteps] = {weights[0], weights[kWarpSize]};
          add_values(a, staged + (page - at) * kPassTiles * kWarpSize, lane.index, chunk_o);
          if (all_finite) continue;
          const int live[2] = {seen[0] - page * kPageSlots, seen[1] - page * kPageSlots};
          add_infinite(pages[page] + layout.value_offset, dim, head_dim, a, live, lane, chunk_o);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (seen[i / 2] <= 0) continue;
#pragma unroll
        for (int tile = 0; tile < kPassTiles; ++tile)
          o[pass + tile][i] = merged(o[pass + tile][i], chunk_o[tile][i], factors[i / 2]);
      }
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (visible[half] == 0) continue;
    const DenseQuery query(job, kv_head, first_query + lane.row() + 8 * half);
    float* to = job.out + query.offset(job, head_dim);
    const float inverse = 1.0F / state[half].sum;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int i = first_dim + tile * kTensorColumns + 2 * lane.quad();
      if (i >= head_dim) continue;
      *reinterpret_cast<float2*>(to + i) =
          float2{o[tile][2 * half] * inverse, o[tile][2 * half + 1] * inverse};
    }
    if (job.lse != nullptr && lane.quad() == 0 && first_dim == 0) {
      job.lse[query.head * job.lse_stride + query.row] =
          state[half].max + float(log(double(state[half].sum)));
    }
  }
}

}  // namespace

void attend_dense_tensor(const DenseRows& job, PageLayout layout, cudaStream_t stream) {
  const int n_queries = job.n_rows * job.counts.group();  // of each KV head
  const auto run = [&]<int kTiles, int kWarps>() {
    constexpr int kColumns = kTiles * kTensorColumns;
    constexpr int kQueries = kWarps * kTensorRows;
    launch(attend_dense_tensor_kernel<kTiles, kWarps>,
           dim3((n_queries + kQueries - 1) / kQueries, job.counts.n_kv_heads,
                (layout.head_dim + kColumns - 1) / kColumns),
           dim3(kWarps * kWarpSize), block_bytes(layout.head_dim, kWarps), stream, job, layout);
  };
  // As many warps as every device has shared memory for.
  constexpr int kPass = kPassTiles * kTensorColumns;
  if (layout.head_dim <= kPass) return run.template operator()<kPassTiles, 4>();
  if (layout.head_dim <= 2 * kPass) return run.template operator()<2 * kPassTiles, 4>();
  if (layout.head_dim <= 4 * kPass) return run.template operator()<2 * kPassTiles, 3>();
  run.template operator()<2 * kPassTiles, 2>();
}

}  // namespace kvscope::cuda
