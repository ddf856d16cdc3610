// Dot products of bf16 pairs in registers. By intrinsics: Highway 1.0 spells vdpbf16ps out in f32
// multiply-adds, which is what this is not to measure.
#include "runner/backend/cpu/machine_limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvscope::cpu {

#if defined(__x86_64__)

namespace {
constexpr int kLanes = 16;
constexpr int kChains = 12;  // more than latency × ports
}  // namespace

bool has_bf16_dot() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
}

double bf16_flops_per_round() { return 4.0 * kLanes * kChains; }  // two multiply-adds a lane

__attribute__((target("avx512f,avx512bf16"))) float bf16_dot_chains(int rounds) {
  // 2⁻¹⁰ in both halves; volatile so that nothing about the sums is known before they run.
  volatile int factor_bits = 0x3A803A80;
  const __m512i factors = _mm512_set1_epi32(factor_bits);
  __m512 sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = _mm512_set1_ps(float(c));
  for (int r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) {
      sum[c] = _mm512_dpbf16_ps(sum[c], (__m512bh)factors, (__m512bh)factors);
    }
  }
  float total = 0.0F;
  for (int c = 0; c < kChains; ++c) {
    float lanes[kLanes];
    _mm512_storeu_ps(lanes, sum[c]);
    for (const float lane : lanes) total += lane;
  }
  return total;
}

#else

bool has_bf16_dot() { return false; }
double bf16_flops_per_round() { return 0.0; }
float bf16_dot_chains(int) { return 0.0F; }

#endif

}  // namespace kvscope::cpu
