// Attention over chosen slots. The arithmetic is attend_page.h's, with the chosen slots numbered in
// slot order in place of all: 32 neighbours among them are a "page", 256 a chunk. So a choice of
// every slot has the bits of a dense row, and lanes are busy whether the choice is runs or single
// columns. One block a query, one warp a page of the chunk.
#include "gpu_runtime.h"
#include "runner/backend/cuda/attend_page.h"
#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/prompt_attention.h"
#include "runner/model/config.h"

namespace kvscope::cuda {

namespace {

constexpr int kThreads = kChunkSlots;  // one a chosen slot
constexpr int kBlocks = 4;             // per multiprocessor, at least
constexpr int kOwnDims = kMaxHeadDim / kThreads;
static_assert(kOwnDims * kThreads == kMaxHeadDim);

__device__ inline int inclusive_scan(int x, int lane) {
#pragma unroll
  for (int step = 1; step < kWarpSize; step *= 2) {
    const int before = __shfl_up_sync(kAllLanes, x, step);
    if (lane >= step) x += before;
  }
  return x;
}

// Goes through the slots of ranges, kChunkSlots at a time, one a thread. Of a block together; its
// members are alike in all threads.
class ChosenSlots {
 public:
  __device__ ChosenSlots(const SlotRange* ranges, int n_ranges)
      : ranges_(ranges), n_ranges_(n_ranges) {}
  __device__ bool done() const { return range_ >= n_ranges_; }

  // The thread's slot, or -1; n: how many threads have one, the first ones. ends: shared memory
  // [kThreads], warp_ends: [kChunkPages], free again after the block's next barrier.
  __device__ int next(int* ends, int* warp_ends, int& n) {
    const int thread = int(threadIdx.x);
    const int lane = thread % kWarpSize;
    // As every range has a slot, as many ranges as threads are enough.
    const int mine = range_ + thread;
    int length = 0;
    if (mine < n_ranges_)
      length = ranges_[mine].end - ranges_[mine].begin - (thread == 0 ? taken_ : 0);
    int end = inclusive_scan(length, lane);
    if (lane == kWarpSize - 1) warp_ends[thread / kWarpSize] = end;
    __syncthreads();
    for (int warp = 0; warp < thread / kWarpSize; ++warp) end += warp_ends[warp];
    ends[thread] = end;
    __syncthreads();
    n = min(ends[kThreads - 1], kChunkSlots);
    const int slot = thread < n ? slot_of(thread, ends) : -1;
    const int next_range = first_beyond(kChunkSlots, ends);
    if (next_range == kThreads) {
      taken_ = 0;
    } else {
      const int begin = next_range == 0 ? 0 : ends[next_range - 1];
      taken_ = kChunkSlots - begin + (next_range == 0 ? taken_ : 0);
    }
    range_ += next_range;
    return slot;
  }

 private:
  // The first range that ends beyond the i-th slot, kThreads: none.
  __device__ static int first_beyond(int i, const int* ends) {
    int first = 0;
    for (int n = kThreads; n > 0;) {
      const int half = n / 2;
      if (ends[first + half] <= i) {
        first += half + 1;
        n -= half + 1;
      } else {
        n = half;
      }
    }
    return first;
  }
  __device__ int slot_of(int i, const int* ends) const {
    const int k = first_beyond(i, ends);
    if (k == 0) return ranges_[range_].begin + taken_ + i;
    return ranges_[range_ + k].begin + i - ends[k - 1];
  }

  const SlotRange* ranges_;
  int n_ranges_;
  int range_ = 0;  // the first with slots left …
  int taken_ = 0;  // … of which so many have been
};

// What the values' products need of a chosen slot.
struct WeightedSlot {
  const std::byte* values;  // of its page
  int slot;                 // in the page
  float weight;
};

// z of the lane's slot, anything where it has none (-1): page_logits() with each slot in a page of
// its own. page: of the slot, or any.
template <SlotFormat kFormat>
__device__ inline float chosen_logit(const std::byte* page, int slot, int head_dim, const float* q,
                                     int lane) {
  float z[1] = {0.0F};
  if constexpr (kFormat == SlotFormat::kBF16) {
    const auto key = reinterpret_cast<std::uintptr_t>(reinterpret_cast<const std::uint32_t*>(page) +
                                                      max(slot, 0) % kPageSlots);
    const std::uint32_t* keys[kWarpTiles];
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      keys[tile] = reinterpret_cast<const std::uint32_t*>(__shfl_sync(
          kAllLanes, static_cast<unsigned long long>(key), tile * kTensorColumns + lane / 4));
    }
    tensor_logits<1>(keys, head_dim, q, head_dim, lane, z);
  } else if (slot >= 0) {
    page_logits<kFormat, 1, false>(page, head_dim, q, head_dim, slot % kPageSlots, 0, {}, z);
  }
  return z[0];
}

// o[k] = Σ_j p_j v_ij over n slots for dimension i = first_dim + k · 32 + lane: page_values() with
// each slot in a page of its own. weights: [kPageSlots] of the slots, where these are bf16.
template <SlotFormat kFormat, int kDims>
__device__ inline void chosen_values(const WeightedSlot* slots, const float* weights, int n,
                                     int head_dim, int first_dim, int lane, float (&o)[kDims]) {
  if constexpr (kFormat == SlotFormat::kBF16) {
    const auto value_at = [&](int j, int i) {
      return j < n ? load_value<kFormat>(slots[j].values, head_dim, slots[j].slot, i) : 0.0F;
    };
    const auto pair_at = [&](int j, int i) {
      return __float_as_uint(value_at(j, i)) >> 16 | __float_as_uint(value_at(j + 1, i));
    };
    float sums[1][kDims];
    tensor_values<1, kDims>(pair_at, value_at, head_dim, weights, kPageSlots, {n}, lane, first_dim,
                            sums);
#pragma unroll
    for (int k = 0; k < kDims; ++k) o[k] = sums[0][k];
  } else {
#pragma unroll
    for (int k = 0; k < kDims; ++k) o[k] = 0.0F;
#pragma unroll 4
    for (int j = 0; j < n; ++j) {
      const WeightedSlot chosen = slots[j];
#pragma unroll
      for (int k = 0; k < kDims; ++k) {
        const int i = first_dim + k * kWarpSize + lane;
        if (i >= head_dim) continue;
        o[k] =
            fmaf(chosen.weight, load_value<kFormat>(chosen.values, head_dim, chosen.slot, i), o[k]);
      }
    }
  }
}

// kPass: dimensions a lane has at once.
template <SlotFormat kFormat, int kPass>
__global__ void __launch_bounds__(kThreads, kBlocks)
    attend_selected_kernel(SelectedRows job, PageLayout layout) {
  KSMEM(shared);  // [kChunkPages + 1][head_dim]: sums of each page, q
  KSHARED(int, ends, kThreads);
  KSHARED(int, warp_ends, kChunkPages);
  KSHARED(WeightedSlot, weighted, kChunkSlots);
  KSHARED(float2, bf16_weights, kFormat == SlotFormat::kBF16 ? kChunkSlots / 2 : 1);
  KSHARED(float, page_max, kChunkPages);
  KSHARED(float, page_sum, kChunkPages);
  const int thread = int(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int warp = thread / kWarpSize;
  const int head_dim = layout.head_dim;
  float* page_o = reinterpret_cast<float*>(shared);
  float* q = page_o + kChunkPages * head_dim;
  const int query = int(blockIdx.x);
  for (int i = thread; i < head_dim; i += kThreads) q[i] = job.q[std::size_t(query) * head_dim + i];
  std::byte* const* pages = job.heads[job.head_of_query[query]].pages;
  const int first_range = job.first_range[query];
  ChosenSlots chosen(job.ranges + first_range, job.first_range[query + 1] - first_range);

  SoftmaxState state{0.0F, 0.0F};
  float o[kOwnDims] = {};  // of dimension thread + k · kThreads
  while (!chosen.done()) {
    int n = 0;
    const int slot = chosen.next(ends, warp_ends, n);
    const std::byte* page = pages[max(slot, 0) / kPageSlots];
    const float z = chosen_logit<kFormat>(page, slot, head_dim, q, lane);
    const float largest = warp_max(slot >= 0 ? z : -INFINITY);
    if (lane == 0) page_max[warp] = largest;
    __syncthreads();
    SoftmaxState chunk{-INFINITY, 0.0F};
    for (int k = 0; k < kChunkPages; ++k) chunk.max = fmaxf(chunk.max, page_max[k]);
    const float p = slot >= 0 ? expf(z - chunk.max) : 0.0F;
    const float sum = warp_sum(p);
    if (lane == 0) page_sum[warp] = sum;
    weighted[thread] = {page + layout.value_offset, max(slot, 0) % kPageSlots,
                        product_weight<kFormat>(p)};
    float* weights = nullptr;
    if constexpr (kFormat == SlotFormat::kBF16) {
      weights = reinterpret_cast<float*>(bf16_weights) + warp * kPageSlots;
      weights[lane] = product_weight<kFormat>(p);
    }
    __syncwarp();
    const int n_of_warp = max(0, min(kPageSlots, n - warp * kPageSlots));
    for (int first = 0; first < head_dim; first += kPass * kWarpSize) {
      float sums[kPass];
      chosen_values<kFormat, kPass>(weighted + warp * kPageSlots, weights, n_of_warp, head_dim,
                                    first, lane, sums);
#pragma unroll
      for (int k = 0; k < kPass; ++k) {
        const int i = first + k * kWarpSize + lane;
        if (i < head_dim) page_o[warp * head_dim + i] = sums[k];
      }
    }
    __syncthreads();
    for (int k = 0; k < kChunkPages; ++k) chunk.sum += page_sum[k];
    const MergeFactors factors = merge(state, chunk);
#pragma unroll
    for (int k = 0; k < kOwnDims; ++k) {
      const int i = thread + k * kThreads;
      if (i >= head_dim) continue;
      float chunk_o = 0.0F;
      for (int w = 0; w < kChunkPages; ++w) chunk_o += page_o[w * head_dim + i];
      o[k] = merged(o[k], chunk_o, factors);
    }
    // What was read is overwritten after the barriers of chosen.next() only.
  }

  const float inverse = 1.0F / state.sum;
#pragma unroll
  for (int k = 0; k < kOwnDims; ++k) {
    const int i = thread + k * kThreads;
    if (i < head_dim) job.out[query][i] = o[k] * inverse;
  }
}

}  // namespace

void attend_selected(const SelectedRows& job, PageLayout layout, cudaStream_t stream) {
  if (job.n_queries == 0) return;
  const auto run = [&]<SlotFormat kFormat, int kPass>() {
    launch(attend_selected_kernel<kFormat, kPass>, dim3(job.n_queries), dim3(kThreads),
           std::size_t(kChunkPages + 1) * layout.head_dim * sizeof(float), stream, job, layout);
  };
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    // Tensor cores' sums leave registers for no more.
    if constexpr (kFormat == SlotFormat::kBF16) {
      run.template operator()<kFormat, 2>();
    } else {
      if (layout.head_dim <= 2 * kWarpSize) return run.template operator()<kFormat, 2>();
      run.template operator()<kFormat, 4>();
    }
  });
}

}  // namespace kvscope::cuda
