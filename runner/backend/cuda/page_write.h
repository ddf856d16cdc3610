// Writing slots of a page inside kernels: the bytes that the CPU writes (page_slots.h, kv_codec.h).
// What works on a whole slot is done by one warp, all of whose lanes call it alike; store_slot and
// copy_slot leave the slot fit for use by the same warp, other warps see it after the kernel's next
// barrier. Nothing here may be contracted to FMAs: the CPU rotates with two
// products and a sum.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu_runtime.h"
#include "runner/backend/cuda/page_access.h"
#include "runner/backend/cuda/pages.h"
#include "runner/backend/cuda/warp.h"

namespace kvscope::cuda {

inline constexpr std::uint32_t kMagnitudeMask = 0x7FFFFFFFU;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000U;

// Ties to even, beyond 65504 infinity; a NaN keeps its sign and has the payload that half.h gives
// it, which the conversion instruction would not.
__device__ inline std::uint16_t f16_bits(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & kMagnitudeMask) > kInfinityBits)
    return std::uint16_t(((bits >> 16) & 0x8000U) | 0x7E00U);
  const __half half = __float2half_rn(x);
  std::uint16_t half_bits = 0;
  memcpy(&half_bits, &half, sizeof half_bits);
  return half_bits;
}

// Largest finite code as a value: what a token's largest magnitude is mapped to.
template <SlotFormat kFormat>
inline constexpr float kLargestCode = kFormat == SlotFormat::kInt8      ? 127.0F
                                      : kFormat == SlotFormat::kFp8E4M3 ? 448.0F
                                                                        : 57344.0F;

// x as one byte of 8-bit floating point, ties to even, saturating (fp8_bits of kv_codec.h).
template <SlotFormat kFormat>
__device__ inline std::uint8_t fp8_code(float x) {
  static_assert(kFormat == SlotFormat::kFp8E4M3 || kFormat == SlotFormat::kFp8E5M2);
  constexpr bool kE4M3 = kFormat == SlotFormat::kFp8E4M3;
  constexpr int kMantissaBits = kE4M3 ? 3 : 2;
  constexpr int kBias = kE4M3 ? 7 : 15;
  constexpr int kLeast = 1 - kBias;  // exponent of the least normal number and of subnormal ones
  constexpr std::uint32_t kLargest = kE4M3 ? 0x7EU : 0x7BU;

  const std::uint32_t bits = __float_as_uint(x);
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  const std::uint32_t magnitude = bits & kMagnitudeMask;
  if (magnitude > kInfinityBits) return std::uint8_t(sign | 0x7FU);
  const int exponent = int(magnitude >> 23) - 127;
  if (exponent < kLeast - kMantissaBits - 1) return std::uint8_t(sign);  // < half the least
  if (exponent > kBias + 1) return std::uint8_t(sign | kLargest);
  const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
  const int kept = max(exponent, kLeast);
  const int shift = 23 - kMantissaBits + (kept - exponent);
  std::uint32_t code = (std::uint32_t(kept - kLeast) << kMantissaBits) + (mantissa >> shift);
  const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
  const std::uint32_t tie = 1U << (shift - 1);
  // A carry moves into the exponent, as it should.
  if (rest > tie || (rest == tie && (code & 1U) != 0U)) ++code;
  return std::uint8_t(sign | min(code, kLargest));
}

// Code of x under its token's scale. A scale of 0 (a token of zeros) or NaN (a token with a value
// that is not finite) has codes 0.
template <SlotFormat kFormat>
__device__ inline std::uint8_t code_of(float x, float scale) {
  if (!(scale > 0.0F)) return 0;
  const float ratio = x / scale;
  if constexpr (kFormat == SlotFormat::kInt8) {
    return std::uint8_t(std::int8_t(rintf(fminf(fmaxf(ratio, -127.0F), 127.0F))));
  } else {
    return fp8_code<kFormat>(ratio);
  }
}

// Scale of a token, from the bits of its largest magnitude: as integers these sort NaNs behind
// infinity and that behind everything finite, so one maximum also tells whether all are finite.
template <SlotFormat kFormat>
__device__ inline float token_scale(std::uint32_t largest_magnitude) {
  if (largest_magnitude >= kInfinityBits) return __uint_as_float(0x7FC00000U);
  return __uint_as_float(largest_magnitude) / kLargestCode<kFormat>;
}

__device__ inline std::uint32_t magnitude_of(KeyPair x) {
  return max(__float_as_uint(x.x) & kMagnitudeMask, __float_as_uint(x.y) & kMagnitudeMask);
}

// Scale of a token whose dimensions i and i + 1 are pair_at(i); the same in all lanes.
template <SlotFormat kFormat, class PairAt>
__device__ inline float scale_of(const PairAt& pair_at, int head_dim, int lane) {
  std::uint32_t largest = 0;
  for (int i = 2 * lane; i < head_dim; i += 2 * kWarpSize)
    largest = max(largest, magnitude_of(pair_at(i)));
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, step));
  return token_scale<kFormat>(largest);
}

// Dimensions i and i + 1 (i even) of the key in `slot`. scale: of the token, coded formats only.
template <SlotFormat kFormat>
__device__ inline void store_key_pair(std::byte* page, int i, int slot, KeyPair x, float scale) {
  const std::size_t at = std::size_t(i) * kPageSlots + slot;
  if constexpr (kFormat == SlotFormat::kF32) {
    auto* keys = reinterpret_cast<float*>(page) + at;
    keys[0] = x.x;
    keys[kPageSlots] = x.y;
  } else if constexpr (kFormat == SlotFormat::kF16) {
    auto* keys = reinterpret_cast<std::uint16_t*>(page) + at;
    keys[0] = f16_bits(x.x);
    keys[kPageSlots] = f16_bits(x.y);
  } else if constexpr (kFormat == SlotFormat::kBF16) {
    reinterpret_cast<std::uint32_t*>(page)[std::size_t(i / 2) * kPageSlots + slot] =
        bf16_bits(x.x) | bf16_bits(x.y) << 16;
  } else {
    auto* codes = reinterpret_cast<std::uint8_t*>(page) + at;
    codes[0] = code_of<kFormat>(x.x, scale);
    codes[kPageSlots] = code_of<kFormat>(x.y, scale);
  }
}

// Dimension i of the value in `slot`; `values` is where a page's values start. Of a word that two
// slots' bf16 values share only this slot's half is touched: another warp may be writing the other.
template <SlotFormat kFormat>
__device__ inline void store_value(std::byte* values, int head_dim, int slot, int i, float x,
                                   float scale) {
  const std::size_t at = std::size_t(slot) * head_dim + i;
  if constexpr (kFormat == SlotFormat::kF32) {
    reinterpret_cast<float*>(values)[at] = x;
  } else if constexpr (kFormat == SlotFormat::kF16) {
    reinterpret_cast<std::uint16_t*>(values)[at] = f16_bits(x);
  } else if constexpr (kFormat == SlotFormat::kBF16) {
    reinterpret_cast<std::uint16_t*>(
        values)[(std::size_t(slot / 2) * head_dim + i) * 2 + slot % 2] =
        std::uint16_t(bf16_bits(x));
  } else {
    reinterpret_cast<std::uint8_t*>(values)[at] = code_of<kFormat>(x, scale);
  }
}

// Dimensions i and i + 1 of x [head_dim], turned to `angle`, or as they are where it is -1.
struct TurnedRow {
  const float* x;
  const float* cos;  // nullptr: as it is
  const float* sin;
  __device__ KeyPair operator()(int i) const {
    const KeyPair pair{x[i], x[i + 1]};
    return cos == nullptr ? pair : turned(pair, cos[i / 2], sin[i / 2]);
  }
};
__device__ inline TurnedRow turned_row(const float* x, int head_dim, int angle,
                                       const RopeRows& rope) {
  if (angle < 0) return {x, nullptr, nullptr};
  const std::size_t first = std::size_t(angle) * (head_dim / 2);
  return {x, rope.cos + first, rope.sin + first};
}

// The key in `slot`: dimensions i and i + 1 are pair_at(i), called by the lane that stores them
// (more than once, and before anything of them is stored).
template <SlotFormat kFormat, class PairAt>
__device__ inline void store_key(std::byte* page, int head_dim, int slot, const PairAt& pair_at,
                                 int lane) {
  float scale = 1.0F;
  if constexpr (kIsCoded<kFormat>) {
    scale = scale_of<kFormat>(pair_at, head_dim, lane);
    __syncwarp();  // pair_at may come from reads of the scale that is replaced here
    if (lane == 0) scales_of(page, head_dim)[slot] = scale;
  }
  for (int i = 2 * lane; i < head_dim; i += 2 * kWarpSize)
    store_key_pair<kFormat>(page, i, slot, pair_at(i), scale);
}

// The value in `slot`, from pair_at as for keys.
template <SlotFormat kFormat, class PairAt>
__device__ inline void store_value_row(std::byte* values, int head_dim, int slot,
                                       const PairAt& pair_at, int lane) {
  float scale = 1.0F;
  if constexpr (kIsCoded<kFormat>) {
    scale = scale_of<kFormat>(pair_at, head_dim, lane);
    if (lane == 0) scales_of(values, head_dim)[slot] = scale;
  }
  for (int i = 2 * lane; i < head_dim; i += 2 * kWarpSize) {
    const KeyPair pair = pair_at(i);
    store_value<kFormat>(values, head_dim, slot, i, pair.x, scale);
    store_value<kFormat>(values, head_dim, slot, i + 1, pair.y, scale);
  }
}

// One token of one KV head to be written into a slot.
struct SlotWrite {
  const float* key = nullptr;    // [head_dim] before RoPE
  const float* value = nullptr;  // [head_dim]; not read where pages have no values
  std::byte* page = nullptr;
  std::int32_t slot = 0;    // within the page
  std::int32_t angle = -1;  // rotate the key to this position; -1: as it is
};
// By one warp. Other warps may be writing other slots of the page (and, in bf16 pages, the word
// that holds two slots' values: both survive).
template <SlotFormat kFormat>
__device__ inline void store_slot(const SlotWrite& write, const PageLayout& layout,
                                  const RopeRows& rope, int lane) {
  const int d = layout.head_dim;
  store_key<kFormat>(write.page, d, write.slot, turned_row(write.key, d, write.angle, rope), lane);
  if (layout.has_values)
    store_value_row<kFormat>(write.page + layout.value_offset, d, write.slot,
                             turned_row(write.value, d, -1, rope), lane);
  __syncwarp();
}

// Every stride-th of elements 0 … (n - 1) · stride, a few at a time per lane: loads of an element
// must not wait for the stores before it.
template <class Element>
__device__ inline void copy_strided(const Element* from, Element* to, int n, int stride, int lane) {
  constexpr int kAtOnce = 4;
#pragma unroll 1  // more at once would cost registers, of which the scan has none to spare
  for (int first = lane; first < n; first += kAtOnce * kWarpSize) {
    Element held[kAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = first + k * kWarpSize;
      if (i < n) held[k] = from[std::size_t(i) * stride];
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = first + k * kWarpSize;
      if (i < n) to[std::size_t(i) * stride] = held[k];
    }
  }
}

template <SlotFormat kFormat>
using StoredElement =
    std::conditional_t<kFormat == SlotFormat::kF32, std::uint32_t,
                       std::conditional_t<kIsCoded<kFormat>, std::uint8_t, std::uint16_t>>;

// The stored bits of one key to another slot, of the same page or of another like it.
template <SlotFormat kFormat>
__device__ inline void copy_key(const std::byte* from, int from_slot, std::byte* to, int to_slot,
                                int head_dim, int lane) {
  constexpr bool kPairs = kFormat == SlotFormat::kBF16;  // two dimensions are one word
  using Element = std::conditional_t<kPairs, std::uint32_t, StoredElement<kFormat>>;
  copy_strided(reinterpret_cast<const Element*>(from) + from_slot,
               reinterpret_cast<Element*>(to) + to_slot, kPairs ? head_dim / 2 : head_dim,
               kPageSlots, lane);
  if (kIsCoded<kFormat> && lane == 0)
    scales_of(to, head_dim)[to_slot] = scales_of(from, head_dim)[from_slot];
}

// The same of a value; from and to are where the pages' values start.
template <SlotFormat kFormat>
__device__ inline void copy_value(const std::byte* from, int from_slot, std::byte* to, int to_slot,
                                  int head_dim, int lane) {
  using Element = StoredElement<kFormat>;
  constexpr bool kPairs = kFormat == SlotFormat::kBF16;  // two slots lie side by side
  const auto first = [head_dim](int slot) {
    return kPairs ? std::size_t(slot / 2) * head_dim * 2 + slot % 2 : std::size_t(slot) * head_dim;
  };
  copy_strided(reinterpret_cast<const Element*>(from) + first(from_slot),
               reinterpret_cast<Element*>(to) + first(to_slot), head_dim, kPairs ? 2 : 1, lane);
  if (kIsCoded<kFormat> && lane == 0)
    scales_of(to, head_dim)[to_slot] = scales_of(from, head_dim)[from_slot];
}

// Key and value (where pages have them) of one slot to another slot of pages of one layout, by one
// warp.
template <SlotFormat kFormat>
__device__ inline void copy_slot(const std::byte* from, int from_slot, std::byte* to, int to_slot,
                                 const PageLayout& layout, int lane) {
  copy_key<kFormat>(from, from_slot, to, to_slot, layout.head_dim, lane);
  if (layout.has_values)
    copy_value<kFormat>(from + layout.value_offset, from_slot, to + layout.value_offset, to_slot,
                        layout.head_dim, lane);
  __syncwarp();
}

}  // namespace kvscope::cuda
