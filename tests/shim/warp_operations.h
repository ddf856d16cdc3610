// Barriers, shuffles, votes, reductions and products of matrices in kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/shim/engine.h"

namespace kvscope::shim {

template <class T>
std::uint64_t to_word(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T from_word(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

template <class T>
T shuffle(std::uint32_t mask, T value, unsigned source, SourcePlace place) {
  Meeting& meeting = meet(mask, to_word(value), WarpOperation::kShuffle, place);
  if ((mask >> source & 1) == 0) fail("shuffle reads lane %u outside its mask", source);
  const T result = from_word<T>(meeting.values[source]);
  leave(meeting);
  return result;
}

// Lanes in ascending order.
template <class T, class Function>
T reduce(std::uint32_t mask, T value, WarpOperation operation, SourcePlace place,
         Function function) {
  Meeting& meeting = meet(mask, to_word(value), operation, place);
  bool is_first = true;
  T result{};
  for (int i = 0; i < warpSize; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const T other = from_word<T>(meeting.values[i]);
    result = is_first ? other : function(result, other);
    is_first = false;
  }
  leave(meeting);
  return result;
}

}  // namespace kvscope::shim

inline void __syncthreads(kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  kvscope::shim::barrier(0, place);
}
inline int __syncthreads_count(
    int predicate, kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return kvscope::shim::barrier(predicate != 0, place);
}
inline int __syncthreads_or(int predicate,
                            kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return kvscope::shim::barrier(predicate != 0, place) != 0;
}
inline int __syncthreads_and(
    int predicate, kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return kvscope::shim::barrier(predicate == 0, place) == 0;
}
inline void __syncwarp(unsigned mask = ~0U,
                       kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  kvscope::shim::leave(kvscope::shim::meet(mask, 0, kvscope::shim::WarpOperation::kSync, place));
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  const unsigned segment = kvscope::shim::lane() & ~unsigned(width - 1);
  return kvscope::shim::shuffle(mask, value, segment | (unsigned(source) & unsigned(width - 1)),
                                place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  const unsigned lane = kvscope::shim::lane();
  const unsigned source = lane ^ unsigned(lane_mask);
  const unsigned segment = ~unsigned(width - 1);
  const bool beyond = (source & segment) > (lane & segment);  // gives the lane's own value
  return kvscope::shim::shuffle(mask, value, beyond ? lane : source & 31, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  const unsigned lane = kvscope::shim::lane();
  const bool beyond = (lane & unsigned(width - 1)) < delta;
  return kvscope::shim::shuffle(mask, value, beyond ? lane : lane - delta, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  const unsigned lane = kvscope::shim::lane();
  const bool beyond = (lane & unsigned(width - 1)) + delta >= unsigned(width);
  return kvscope::shim::shuffle(mask, value, beyond ? lane : lane + delta, place);
}

inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return kvscope::shim::reduce(mask, predicate != 0 ? 1U << kvscope::shim::lane() : 0U,
                               kvscope::shim::WarpOperation::kVote, place,
                               [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int predicate,
                      kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return __ballot_sync(mask, predicate, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return __ballot_sync(mask, predicate, place) == mask;
}

// T: int or unsigned, as on a device.
template <class T>
T __reduce_add_sync(unsigned mask, T value,
                    kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return kvscope::shim::reduce(mask, value, kvscope::shim::WarpOperation::kReduce, place,
                               [](T a, T b) { return T(unsigned(a) + unsigned(b)); });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value,
                    kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
  return kvscope::shim::reduce(mask, value, kvscope::shim::WarpOperation::kReduce, place,
                               [](T a, T b) { return a < b ? a : b; });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value,
                    kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
  return kvscope::shim::reduce(mask, value, kvscope::shim::WarpOperation::kReduce, place,
                               [](T a, T b) { return a < b ? b : a; });
}
inline unsigned __reduce_or_sync(
    unsigned mask, unsigned value,
    kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return kvscope::shim::reduce(mask, value, kvscope::shim::WarpOperation::kReduce, place,
                               [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_and_sync(
    unsigned mask, unsigned value,
    kvscope::shim::SourcePlace place = kvscope::shim::SourcePlace::here()) {
  return kvscope::shim::reduce(mask, value, kvscope::shim::WarpOperation::kReduce, place,
                               [](unsigned a, unsigned b) { return a & b; });
}

namespace kvscope::shim {

// The bf16 element k of a word that holds elements k and k + 1, k even, or k - 1 and k.
inline float product_operand(std::uint32_t word, int k) {
  return from_word<float>(k % 2 == 0 ? std::uint64_t{word} << 16 & 0xFFFFFFFFU
                                     : std::uint64_t{word} & 0xFFFF0000U);
}

}  // namespace kvscope::shim

namespace kvscope::cuda {

// As the toolkit's. Each sum is one chain over k, whatever a device's order is.
inline void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                         shim::SourcePlace place = shim::SourcePlace::here()) {
  shim::Meeting& meeting = shim::meet({{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, place);
  const unsigned lane = shim::lane();
  for (int i = 0; i < 4; ++i) {
    const unsigned row_lane = lane / 4 * 4;  // of the four that hold the row of A
    const unsigned column_lane = (lane % 4 * 2 + unsigned(i % 2)) * 4;
    const unsigned lower_half = unsigned(i / 2);  // rows 8 … 15
    float sum = c[i];
    for (int k = 0; k < 16; ++k) {
      const unsigned quad = unsigned(k) % 8 / 2;
      const unsigned upper = unsigned(k) / 8;
      sum = std::fma(
          shim::product_operand(meeting.operands[row_lane + quad].a[2 * upper + lower_half], k),
          shim::product_operand(meeting.operands[column_lane + quad].b[upper], k), sum);
    }
    c[i] = sum;
  }
  shim::leave(meeting);
}

}  // namespace kvscope::cuda
