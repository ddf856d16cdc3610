// Rows of elements inside kernels, four neighbours at a time: at once where they lie on their own
// boundary (16 bytes of float32, 8 of the 16-bit types), else one by one. A thread gets the same
// elements either way, so that sums do not depend on where a row lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu_runtime.h"
#include "runner/backend/cuda/page_access.h"
#include "runner/backend/cuda/page_write.h"
#include "runner/base/dtype.h"

namespace kvscope::cuda {

inline constexpr int kQuad = 4;

__host__ __device__ constexpr int quads_of(int n) { return (n + kQuad - 1) / kQuad; }

__device__ inline float f16_value(std::uint16_t bits) {
  __half half;
  memcpy(static_cast<void*>(&half), &bits, sizeof bits);
  return __half2float(half);
}

// Elements of a 16-bit type.
template <DType kDType>
__device__ inline float widened(std::uint32_t bits) {
  static_assert(kDType != DType::kF32);
  return kDType == DType::kBF16 ? bf16_to_float(bits) : f16_value(std::uint16_t(bits));
}
template <DType kDType>
__device__ inline std::uint32_t narrowed(float x) {
  static_assert(kDType != DType::kF32);
  return kDType == DType::kBF16 ? bf16_bits(x) : f16_bits(x);
}

template <class Word>
__device__ inline bool lies_on(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Word) == 0;
}

// Elements i … i + 3 of a row of n; 0 beyond it.
__device__ inline float4 load_quad(const float* x, std::size_t i, std::size_t n) {
  if (i + kQuad <= n && lies_on<float4>(x + i)) return *reinterpret_cast<const float4*>(x + i);
  float4 quad{0.0F, 0.0F, 0.0F, 0.0F};
  if (i < n) quad.x = x[i];
  if (i + 1 < n) quad.y = x[i + 1];
  if (i + 2 < n) quad.z = x[i + 2];
  if (i + 3 < n) quad.w = x[i + 3];
  return quad;
}
template <DType kDType>
__device__ inline float4 load_quad(const void* row, std::size_t i, std::size_t n) {
  if constexpr (kDType == DType::kF32) {
    return load_quad(static_cast<const float*>(row), i, n);
  } else {
    const auto* x = static_cast<const std::uint16_t*>(row);
    if (i + kQuad <= n && lies_on<uint2>(x + i)) {
      const uint2 words = *reinterpret_cast<const uint2*>(x + i);
      return {widened<kDType>(words.x & 0xFFFFU), widened<kDType>(words.x >> 16),
              widened<kDType>(words.y & 0xFFFFU), widened<kDType>(words.y >> 16)};
    }
    float4 quad{0.0F, 0.0F, 0.0F, 0.0F};
    if (i < n) quad.x = widened<kDType>(x[i]);
    if (i + 1 < n) quad.y = widened<kDType>(x[i + 1]);
    if (i + 2 < n) quad.z = widened<kDType>(x[i + 2]);
    if (i + 3 < n) quad.w = widened<kDType>(x[i + 3]);
    return quad;
  }
}

// The same, stored; what lies beyond n is left alone.
__device__ inline void store_quad(float* y, std::size_t i, std::size_t n, float4 quad) {
  if (i + kQuad <= n && lies_on<float4>(y + i)) {
    *reinterpret_cast<float4*>(y + i) = quad;
    return;
  }
  if (i < n) y[i] = quad.x;
  if (i + 1 < n) y[i + 1] = quad.y;
  if (i + 2 < n) y[i + 2] = quad.z;
  if (i + 3 < n) y[i + 3] = quad.w;
}
template <DType kDType>
__device__ inline void store_quad(void* row, std::size_t i, std::size_t n, float4 quad) {
  if constexpr (kDType == DType::kF32) {
    store_quad(static_cast<float*>(row), i, n, quad);
  } else {
    auto* y = static_cast<std::uint16_t*>(row);
    const std::uint32_t bits[kQuad] = {narrowed<kDType>(quad.x), narrowed<kDType>(quad.y),
                                       narrowed<kDType>(quad.z), narrowed<kDType>(quad.w)};
    if (i + kQuad <= n && lies_on<uint2>(y + i)) {
      *reinterpret_cast<uint2*>(y + i) = uint2{bits[0] | bits[1] << 16, bits[2] | bits[3] << 16};
      return;
    }
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      if (i + k < n) y[i + k] = std::uint16_t(bits[k]);
    }
  }
}

}  // namespace kvscope::cuda
