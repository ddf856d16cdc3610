// Arithmetic that CUDA has in the global namespace and the host compiler has not. What is missing
// here is a compile error: add a line. Kernels use expf, not __expf: the C library has a function
// of that name.
#pragma once

#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstring>

template <class T>
T __ldg(const T* p) {
  return *p;
}

template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}

inline int __float_as_int(float x) {
  int bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline unsigned __float_as_uint(float x) { return static_cast<unsigned>(__float_as_int(x)); }
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
