// Stands for the toolkit's header of this name. Rounds to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

struct __half {
  std::uint16_t bits;
};
using half = __half;

inline float __half2float(__half x) {
  _Float16 value;
  std::memcpy(&value, &x.bits, sizeof value);
  return static_cast<float>(value);
}
inline __half __float2half_rn(float x) {
  const auto value = static_cast<_Float16>(x);
  __half result;
  std::memcpy(&result.bits, &value, sizeof value);
  return result;
}
inline __half __float2half(float x) { return __float2half_rn(x); }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
