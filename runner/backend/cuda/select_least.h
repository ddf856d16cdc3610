// Block-wide selection by a strict total order: the least of n items, or the k least. All threads
// of the block (a multiple of whole warps) take part; results do not depend on how many there are.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/warp.h"

namespace kvscope::cuda {

// What items are ordered by, `high` first; no two items of a selection have the same key.
struct OrderKey {
  std::uint64_t high;
  std::uint32_t low;
};
__device__ inline bool operator<(const OrderKey& a, const OrderKey& b) {
  return a.high != b.high ? a.high < b.high : a.low < b.low;
}

// A float as an integer that compares as the float does: NaN before everything, −0 equal to 0.
__device__ inline std::uint32_t ordered(float x) {
  if (x != x) return 0;
  const std::uint32_t bits = __float_as_uint(x == 0.0F ? 0.0F : x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Digits of a key, the most significant first. A selection by `high` alone needs only the first.
inline constexpr int kHighDigits = 8;
inline constexpr int kKeyDigits = 12;

inline constexpr int kDigitValues = 256;

// Shared memory of a selection.
struct SelectShared {
  std::uint32_t histogram[kDigitValues];
  std::uint32_t digit;   // of the wanted key
  std::uint32_t before;  // keys with a lesser digit
  std::uint32_t equal;   // keys with this digit
  std::uint32_t counts[kMostWarps];
  OrderKey keys[kMostWarps];
  std::int32_t items[kMostWarps];
};

__device__ inline int block_warps() { return int(blockDim.x) / kWarpSize; }

// The least key of the warp and its item, in all lanes.
__device__ inline void warp_least(OrderKey& key, int& item) {
  const auto top = std::uint32_t(key.high >> 32);
  const auto middle = std::uint32_t(key.high);
  const std::uint32_t least_top = __reduce_min_sync(kAllLanes, top);
  const bool by_top = top == least_top;
  const std::uint32_t least_middle = __reduce_min_sync(kAllLanes, by_top ? middle : ~0U);
  const bool by_high = by_top && middle == least_middle;
  const std::uint32_t least_low = __reduce_min_sync(kAllLanes, by_high ? key.low : ~0U);
  const unsigned winners = __ballot_sync(kAllLanes, by_high && key.low == least_low);
  item = __shfl_sync(kAllLanes, item, __ffs(int(winners)) - 1);
  key = {std::uint64_t(least_top) << 32 | least_middle, least_low};
}

// The item in [0, n) of the least key, in all threads. A barrier must come before `shared` is used
// again.
template <class KeyOf>
__device__ inline int least_of(int n, const KeyOf& key_of, SelectShared& shared) {
  const int lane = int(threadIdx.x) % kWarpSize;
  OrderKey least{~std::uint64_t(0), ~0U};
  int item = 0;
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) {
    const OrderKey key = key_of(i);
    if (key < least) {
      least = key;
      item = i;
    }
  }
  warp_least(least, item);
  if (lane == 0) {
    shared.keys[threadIdx.x / kWarpSize] = least;
    shared.items[threadIdx.x / kWarpSize] = item;
  }
  __syncthreads();
  const bool is_warp = lane < block_warps();
  least = is_warp ? shared.keys[lane] : OrderKey{~std::uint64_t(0), ~0U};
  item = is_warp ? shared.items[lane] : 0;
  warp_least(least, item);
  return item;
}

__device__ inline std::uint32_t digit_of(const OrderKey& key, int digit) {
  const std::uint64_t shifted = digit < kHighDigits ? key.high >> (8 * (kHighDigits - 1 - digit))
                                                    : key.low >> (8 * (kKeyDigits - 1 - digit));
  return std::uint32_t(shifted) % kDigitValues;
}
__device__ inline void or_digit(OrderKey& key, int digit, std::uint32_t value) {
  if (digit < kHighDigits) {
    key.high |= std::uint64_t(value) << (8 * (kHighDigits - 1 - digit));
  } else {
    key.low |= value << (8 * (kKeyDigits - 1 - digit));
  }
}

// By one warp: the digit of the wanted-th least among the counted keys (1 ≤ wanted).
__device__ inline void find_digit(std::uint32_t wanted, SelectShared& shared) {
  constexpr int kOfLane = kDigitValues / kWarpSize;
  const int lane = int(threadIdx.x) % kWarpSize;
  const std::uint32_t* own = shared.histogram + lane * kOfLane;
  std::uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) sum += own[i];
  std::uint32_t up_to = sum;  // keys of this lane's digits and the lesser ones
#pragma unroll
  for (int step = 1; step < kWarpSize; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(kAllLanes, up_to, step);
    if (lane >= step) up_to += other;
  }
  std::uint32_t before = up_to - sum;
  if (before >= wanted || up_to < wanted) return;
  int i = 0;
  for (; before + own[i] < wanted; ++i) before += own[i];
  shared.digit = std::uint32_t(lane * kOfLane + i);
  shared.before = before;
  shared.equal = own[i];
}

// A key that exactly k of n items' keys do not exceed (1 ≤ k ≤ n), in all threads: radix selection.
// n_digits: kHighDigits if all keys have the same `low`.
template <class KeyOf>
__device__ inline OrderKey bound_of_least(int n, int k, int n_digits, const KeyOf& key_of,
                                          SelectShared& shared) {
  OrderKey found{0, 0};
  OrderKey known{0, 0};  // bits of `found` that are decided
  auto wanted = std::uint32_t(k);
  for (int digit = 0; digit < n_digits; ++digit) {
    for (int i = int(threadIdx.x); i < kDigitValues; i += int(blockDim.x)) shared.histogram[i] = 0;
    __syncthreads();
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) {
      const OrderKey key = key_of(i);
      if ((key.high & known.high) == found.high && (key.low & known.low) == found.low)
        atomicAdd(&shared.histogram[digit_of(key, digit)], 1U);
    }
    __syncthreads();
    if (threadIdx.x < kWarpSize) find_digit(wanted, shared);
    __syncthreads();
    or_digit(found, digit, shared.digit);
    or_digit(known, digit, kDigitValues - 1);
    wanted -= shared.before;
    if (shared.equal == wanted) break;  // all keys that begin like this belong to the least
  }
  return {found.high | ~known.high, found.low | ~known.low};
}

// Writes the items in [0, n) that `take` wants to `out`, ascending. Ends with a barrier.
template <class Take>
__device__ inline void collect(int n, const Take& take, std::int32_t* out, SelectShared& shared) {
  const int lane = int(threadIdx.x) % kWarpSize;
  const int warp = int(threadIdx.x) / kWarpSize;
  int before = 0;
  for (int first = 0; first < n; first += int(blockDim.x)) {
    const int i = first + int(threadIdx.x);
    const bool taken = i < n && take(i);
    const unsigned takers = __ballot_sync(kAllLanes, taken);
    if (lane == 0) shared.counts[warp] = std::uint32_t(__popc(takers));
    __syncthreads();
    int at = before + __popc(takers & ((1U << lane) - 1U));
    for (int w = 0; w < block_warps(); ++w) {
      if (w < warp) at += int(shared.counts[w]);
      before += int(shared.counts[w]);
    }
    if (taken) out[at] = i;
    __syncthreads();
  }
}

// The k least of n items, ascending by item. Ends with a barrier.
template <class KeyOf>
__device__ inline void least_items(int n, int k, int n_digits, const KeyOf& key_of,
                                   std::int32_t* out, SelectShared& shared) {
  if (k == 1) {  // every step of a cache that is full
    const int item = least_of(n, key_of, shared);
    if (threadIdx.x == 0) out[0] = item;
    __syncthreads();
    return;
  }
  const OrderKey bound = bound_of_least(n, k, n_digits, key_of, shared);
  collect(
      n, [&](int i) { return !(bound < key_of(i)); }, out, shared);
}

}  // namespace kvscope::cuda
