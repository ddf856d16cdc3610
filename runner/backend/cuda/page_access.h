// Reading single elements of a page inside kernels, for every format (PageShape says where they
// lie); page_write.h writes them. Values come out as float32. head_dim is even, so keys are read in
// pairs of dimensions: the pair that RoPE turns, and the two that bf16 pages hold side by side.
// Offsets within a page are int: in 64 bits, kernels would compute more addresses than products.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

__device__ inline float bf16_to_float(std::uint32_t bits) { return __uint_as_float(bits << 16); }

// Ties to even; NaN stays NaN (the CPU's round_to_bf16).
__device__ inline std::uint32_t bf16_bits(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (bits >> 16) | 0x40U;
  return (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
}
__device__ inline float rounded_to_bf16(float x) { return bf16_to_float(bf16_bits(x)); }

// Value of a code; OCP 8-bit floats as kv_codec.h has them. The code's exponent and mantissa are
// put where a float32 has its own, and the product with a power of two, which is exact, mends the
// bias: so subnormal codes need no branch.
template <SlotFormat kFormat>
__device__ inline float code_value(std::uint8_t code) {
  if constexpr (kFormat == SlotFormat::kInt8) {
    return float(static_cast<std::int8_t>(code));
  } else {
    constexpr bool kE4M3 = kFormat == SlotFormat::kFp8E4M3;
    const std::uint32_t sign = std::uint32_t(code & 0x80) << 24;
    const std::uint32_t magnitude = code & 0x7FU;
    float value = 0.0F;
    if constexpr (kE4M3) {
      value = __uint_as_float(sign | magnitude << 20) * 0x1p120F;
      if (magnitude == 0x7FU) value = __uint_as_float(sign | 0x7FC00000U);
    } else {
      value = __uint_as_float(sign | magnitude << 21) * 0x1p112F;
      if (magnitude >= 0x7CU) {
        value = __uint_as_float(sign | (magnitude == 0x7CU ? 0x7F800000U : 0x7FC00000U));
      }
    }
    return value;
  }
}

template <SlotFormat kFormat>
inline constexpr bool kIsCoded = kFormat == SlotFormat::kInt8 || kFormat == SlotFormat::kFp8E4M3 ||
                                 kFormat == SlotFormat::kFp8E5M2;

// Scales of coded keys (or values) that start at `base`: [kPageSlots].
__device__ inline float* scales_of(std::byte* base, int head_dim) {
  return reinterpret_cast<float*>(base + std::size_t(head_dim) * kPageSlots);
}
__device__ inline const float* scales_of(const std::byte* base, int head_dim) {
  return reinterpret_cast<const float*>(base + std::size_t(head_dim) * kPageSlots);
}

struct KeyPair {
  float x, y;
};

// Dimensions i and i + 1 (i even) of the key in `slot` of a page. scale: of the slot, coded formats
// only.
template <SlotFormat kFormat>
__device__ inline KeyPair load_key_pair(const std::byte* page, int i, int slot, float scale) {
  if constexpr (kFormat == SlotFormat::kF32) {
    const auto* keys = reinterpret_cast<const float*>(page) + i * kPageSlots + slot;
    return {keys[0], keys[kPageSlots]};
  } else if constexpr (kFormat == SlotFormat::kF16) {
    const auto* keys = reinterpret_cast<const __half*>(page) + i * kPageSlots + slot;
    return {__half2float(keys[0]), __half2float(keys[kPageSlots])};
  } else if constexpr (kFormat == SlotFormat::kBF16) {
    const std::uint32_t both =
        reinterpret_cast<const std::uint32_t*>(page)[i / 2 * kPageSlots + slot];
    return {bf16_to_float(both & 0xFFFFU), __uint_as_float(both & 0xFFFF0000U)};
  } else {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(page) + i * kPageSlots + slot;
    return {code_value<kFormat>(codes[0]) * scale, code_value<kFormat>(codes[kPageSlots]) * scale};
  }
}

// Dimension i of the value in `slot`; `values` is where a page's values start.
template <SlotFormat kFormat>
__device__ inline float load_value(const std::byte* values, int head_dim, int slot, int i) {
  if constexpr (kFormat == SlotFormat::kF32) {
    return reinterpret_cast<const float*>(values)[slot * head_dim + i];
  } else if constexpr (kFormat == SlotFormat::kF16) {
    return __half2float(reinterpret_cast<const __half*>(values)[slot * head_dim + i]);
  } else if constexpr (kFormat == SlotFormat::kBF16) {
    const std::uint32_t both =
        reinterpret_cast<const std::uint32_t*>(values)[slot / 2 * head_dim + i];
    return slot % 2 == 0 ? bf16_to_float(both & 0xFFFFU) : __uint_as_float(both & 0xFFFF0000U);
  } else {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(values);
    return code_value<kFormat>(codes[slot * head_dim + i]) * scales_of(values, head_dim)[slot];
  }
}

// x turned by the angle of one pair.
__device__ inline KeyPair turned(KeyPair x, float cos, float sin) {
  return {x.x * cos - x.y * sin, x.x * sin + x.y * cos};
}

}  // namespace kvscope::cuda
