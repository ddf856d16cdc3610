// Stands for the toolkit's header of this name. Rounds to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
  std::uint16_t bits;
};
using nv_bfloat16 = __nv_bfloat16;

inline float __bfloat162float(__nv_bfloat16 x) {
  const std::uint32_t bits = std::uint32_t{x.bits} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {0x7FFF};  // the device's NaN
  return {static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16(float x) { return __float2bfloat16_rn(x); }
