// Compiled for AVX-512-BF16 where the compiler knows it (runner/backend/CMakeLists.txt).
#if defined(__AVX512BF16__)
#include "runner/backend/cpu/few_rows_inl.h"

namespace kvscope::cpu {
namespace {

// Two elements of x with two of w each: what vdpbf16ps does in one instruction.
struct BF16Arithmetic {
  using Element = unsigned short;
  static constexpr int kStep = 2;
  static __m512 broadcast(const Element* x) {
    return _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(x)));
  }
  static __m512 multiply_add(__m512 x, __m512 w, __m512 sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w));
  }
};

}  // namespace

void few_rows_bf16(const FewRowsJob& job) { multiply<BF16Arithmetic>(job); }
bool has_few_rows_bf16() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
}

}  // namespace kvscope::cpu
#else
#include "runner/backend/cpu/few_rows.h"

namespace kvscope::cpu {

void few_rows_bf16(const FewRowsJob&) {}
bool has_few_rows_bf16() { return false; }

}  // namespace kvscope::cpu
#endif
