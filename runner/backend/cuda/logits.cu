#include "runner/backend/cuda/logits.h"

#include "runner/backend/cuda/block_reduce.h"
#include "runner/backend/cuda/quads.h"

namespace kvscope::cuda {

namespace {

constexpr int kMostThreads = 1024;  // a row is long and has one block only

unsigned threads_of_row(int n_vocab) {
  return unsigned(threads_for(quads_of(n_vocab), kMostThreads));
}

// Calls use(i, logit) for this thread's logits of a row, i ascending.
template <class Use>
__device__ inline void for_each_logit(const float* row, int n_vocab, const Use& use) {
  const int stride = int(blockDim.x) * kQuad;
  for (int i = int(threadIdx.x) * kQuad; i < n_vocab; i += stride) {
    const float4 quad = load_quad(row, i, n_vocab);
    use(i, quad.x);
    if (i + 1 < n_vocab) use(i + 1, quad.y);
    if (i + 2 < n_vocab) use(i + 2, quad.z);
    if (i + 3 < n_vocab) use(i + 3, quad.w);
  }
}

// A logit and its place as a number whose largest is the first of the largest logits; 0: NaN, or
// nothing. High half: the float's bits in the order of integers, zeros of both signs alike; low
// half: the complement of the place.
using RankedLogit = unsigned long long;

__device__ inline RankedLogit ranked(float logit, int i) {
  if (logit != logit) return 0;
  const std::uint32_t bits = __float_as_uint(logit + 0.0F);  // -0 becomes +0
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return RankedLogit(ordered) << 32 | std::uint32_t(~i);
}
__device__ inline float logit_of(RankedLogit best) {
  if (best == 0) return __uint_as_float(0xFF800000U);  // -infinity
  const auto ordered = std::uint32_t(best >> 32);
  return __uint_as_float((ordered & 0x80000000U) != 0 ? ordered & 0x7FFFFFFFU : ~ordered);
}

__device__ inline RankedLogit best_of_row(const float* row, int n_vocab, RankedLogit* scratch) {
  RankedLogit best = 0;
  for_each_logit(row, n_vocab, [&](int i, float logit) { best = max(best, ranked(logit, i)); });
  return block_max(best, scratch);
}

__global__ void __launch_bounds__(kMostThreads)
    greedy_kernel(const float* logits, int n_vocab, std::int32_t* ids) {
  KSHARED(RankedLogit, scratch, kMostWarps);
  const float* row = logits + std::size_t(blockIdx.x) * n_vocab;
  const RankedLogit best = best_of_row(row, n_vocab, scratch);
  if (threadIdx.x == 0)
    ids[blockIdx.x] = best == 0 ? 0 : std::int32_t(~std::uint32_t(best & 0xFFFFFFFFU));
}

// The exponentials are double's: float's, summed in double, were off by up to 1.2e-9 of the result
// (2e-8 nats) on rows of two near-equal large logits, and an error here goes into divergences as it
// is.
__global__ void __launch_bounds__(kMostThreads)
    log_sum_exp_kernel(const float* logits, int n_vocab, double* lse) {
  KSHARED(float, max_scratch, kMostWarps);
  KSHARED(double, sum_scratch, kMostWarps);
  const float* row = logits + std::size_t(blockIdx.x) * n_vocab;
  float largest = __uint_as_float(0xFF800000U);  // -infinity
  bool is_nan = false;                           // maxima hide NaNs
  for_each_logit(row, n_vocab, [&](int, float logit) {
    largest = fmaxf(largest, logit);
    is_nan = is_nan || logit != logit;
  });
  const bool has_nan = __syncthreads_or(is_nan) != 0;
  largest = block_max(largest, max_scratch);
  double sum = 0.0;
  if (!has_nan && fabsf(largest) < __uint_as_float(0x7F800000U)) {
    for_each_logit(row, n_vocab,
                   [&](int, float logit) { sum += exp(double(logit) - double(largest)); });
  }
  sum = block_sum(sum, sum_scratch);
  if (threadIdx.x != 0) return;
  if (has_nan) {
    lse[blockIdx.x] = double(__uint_as_float(0x7FC00000U));
  } else if (sum == 0.0) {
    lse[blockIdx.x] = double(largest);  // infinite
  } else {
    lse[blockIdx.x] = double(largest) + log(sum);
  }
}

__global__ void pick_logits_kernel(const float* logits, int n_vocab, const RowAndId* places, int n,
                                   float* out) {
  const std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= std::size_t(n)) return;
  const RowAndId place = places[i];
  out[i] = place.id >= 0 && place.id < n_vocab ? logits[std::size_t(place.row) * n_vocab + place.id]
                                               : __uint_as_float(0x7FC00000U);
}

// One block a pair. KL = Σ p · ((full − arm) − offset) / Σ p with p = e^(full − largest), offset =
// full_lse − arm_lse. The exponentials are float's; differences are double's, because of rows that
// are close together (or have moved together) little is left of them.
__global__ void __launch_bounds__(kMostThreads)
    compare_logits_kernel(const LogitPairRows* pairs, int n_vocab, LogitComparison* out) {
  KSHARED(RankedLogit, best_scratch, kMostWarps);
  KSHARED(double, sum_scratch, kMostWarps);
  const LogitPairRows pair = pairs[blockIdx.x];
  const RankedLogit full_best = best_of_row(pair.full, n_vocab, best_scratch);
  const RankedLogit arm_best = best_of_row(pair.arm, n_vocab, best_scratch);
  const float shift = logit_of(full_best);
  const double offset = pair.full_lse - pair.arm_lse;

  double weights = 0.0;
  double differences = 0.0;
  const auto use = [&](float full, float arm) {
    const auto weight = double(expf(full - shift));
    weights += weight;
    differences += weight * ((double(full) - double(arm)) - offset);
  };
  const int stride = int(blockDim.x) * kQuad;
  for (int i = int(threadIdx.x) * kQuad; i < n_vocab; i += stride) {
    const float4 full = load_quad(pair.full, i, n_vocab);
    const float4 arm = load_quad(pair.arm, i, n_vocab);
    use(full.x, arm.x);
    if (i + 1 < n_vocab) use(full.y, arm.y);
    if (i + 2 < n_vocab) use(full.z, arm.z);
    if (i + 3 < n_vocab) use(full.w, arm.w);
  }
  weights = block_sum(weights, sum_scratch);
  differences = block_sum(differences, sum_scratch);
  if (threadIdx.x != 0) return;
  const double kl = differences / weights;
  LogitComparison result;
  result.kl_full_to_arm_nats = kl < 0 ? 0 : kl;  // keeps NaN
  result.top1_agrees =
      std::uint32_t(full_best & 0xFFFFFFFFU) == std::uint32_t(arm_best & 0xFFFFFFFFU);
  out[blockIdx.x] = result;
}

}  // namespace

void log_sum_exp(const float* logits, int rows, int n_vocab, double* lse, cudaStream_t stream) {
  if (rows == 0) return;
  launch(log_sum_exp_kernel, dim3(unsigned(rows)), dim3(threads_of_row(n_vocab)), 0, stream, logits,
         n_vocab, lse);
}

void greedy(const float* logits, int rows, int n_vocab, std::int32_t* ids, cudaStream_t stream) {
  if (rows == 0) return;
  launch(greedy_kernel, dim3(unsigned(rows)), dim3(threads_of_row(n_vocab)), 0, stream, logits,
         n_vocab, ids);
}

void pick_logits(const float* logits, int n_vocab, const RowAndId* places, int n, float* out,
                 cudaStream_t stream) {
  if (n == 0) return;
  constexpr unsigned kThreads = 128;
  launch(pick_logits_kernel, dim3((unsigned(n) + kThreads - 1) / kThreads), dim3(kThreads), 0,
         stream, logits, n_vocab, places, n, out);
}

void compare_logits(const LogitPairRows* pairs, int n, int n_vocab, LogitComparison* out,
                    cudaStream_t stream) {
  if (n == 0) return;
  launch(compare_logits_kernel, dim3(unsigned(n)), dim3(threads_of_row(n_vocab)), 0, stream, pairs,
         n_vocab, out);
}

}  // namespace kvscope::cuda
