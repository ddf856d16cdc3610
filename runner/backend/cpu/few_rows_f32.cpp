// Compiled for AVX-512F where the compiler knows it (runner/backend/CMakeLists.txt).
#if defined(__AVX512F__)
#include "runner/backend/cpu/few_rows_inl.h"

namespace kvscope::cpu {
namespace {

struct F32Arithmetic {
  using Element = float;
  static constexpr int kStep = 1;
  static __m512 broadcast(const float* x) { return _mm512_set1_ps(*x); }
  static __m512 multiply_add(__m512 x, __m512 w, __m512 sum) { return _mm512_fmadd_ps(x, w, sum); }
};

}  // namespace

void few_rows_f32(const FewRowsJob& job) { multiply<F32Arithmetic>(job); }
bool has_few_rows_f32() { return __builtin_cpu_supports("avx512f"); }

}  // namespace kvscope::cpu
#else
#include "runner/backend/cpu/few_rows.h"

namespace kvscope::cpu {

void few_rows_f32(const FewRowsJob&) {}
bool has_few_rows_f32() { return false; }

}  // namespace kvscope::cpu
#endif
