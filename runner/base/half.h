// float32 to the 16-bit types, round to nearest even, in plain integer code.
#pragma once

#include <bit>
#include <cstdint>

namespace kvscope {

constexpr std::uint16_t bf16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return std::uint16_t((bits >> 16) | 0x40U);  // quiet NaN
  return std::uint16_t((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
constexpr float from_bf16_bits(std::uint16_t h) {
  return std::bit_cast<float>(std::uint32_t(h) << 16);
}

// IEEE binary16; overflow becomes infinity.
constexpr std::uint16_t f16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = std::uint16_t((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return std::uint16_t(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return std::uint16_t(sign | 0x7c00U);  // ≥ 65520 rounds to infinity
  if (magnitude < 0x33000001U) return sign;                            // ≤ 2^-25 rounds to zero
  std::uint32_t mantissa = magnitude & 0x7fffffU;
  int exponent = int(magnitude >> 23) - 127 + 15;
  int shift = 13;
  if (exponent <= 0) {  // subnormal half
    mantissa |= 0x800000U;
    shift += 1 - exponent;
    exponent = 0;
  }
  std::uint32_t half = (std::uint32_t(exponent) << 10) + (mantissa >> shift);
  const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
  const std::uint32_t tie = 1U << (shift - 1);
  if (rest > tie || (rest == tie && (half & 1U) != 0U))
    ++half;  // a carry moves into the exponent, as it should
  return std::uint16_t(sign | half);
}
constexpr float from_f16_bits(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t(h & 0x8000U) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1fU;
  const std::uint32_t mantissa = h & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  const float value = float(mantissa) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

}  // namespace kvscope
