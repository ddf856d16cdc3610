// The loops of few_rows.h, included by one source file per arithmetic (each compiled for its own
// instruction set, so nothing in here may be shared with other files: hence no standard library).
#include <immintrin.h>

#include "runner/backend/cpu/few_rows.h"

namespace kvscope::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kRowsAtOnce = 6;  // × 4 vectors of sums, and 4 of weights: 28 of 32 registers

constexpr int kLineBytes = 64;
constexpr int kMaxLines = 2;

inline int smaller(int a, int b) { return a < b ? a : b; }

// Arithmetic: Element, kStep (elements of x per multiply-add), broadcast(x), multiply_add(x, w,
// sum). The first pass over a panel waits for memory, the passes of further rows do not: they fetch
// the next panel, `lines` a step.
struct Fetch {
  const char* from;
  int lines;
};

template <class Arithmetic, int kRows, int kVectors>
inline void multiply_rows(const FewRowsJob& job, const typename Arithmetic::Element* x, float* y,
                          Fetch& fetch) {
  using Element = typename Arithmetic::Element;
  constexpr int kStep = Arithmetic::kStep;
  const auto* w = static_cast<const Element*>(job.panel);
  for (int begin = 0; begin < job.n_in; begin += job.chunk) {
    const int end = smaller(job.n_in, begin + job.chunk);
    __m512 sum[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
    }
    for (int k = begin; k < end; k += kStep) {
      __m512 weights[kVectors];
      for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_ps(w + v * kLanes * kStep);
      w += job.panel_columns * kStep;
      for (int i = 0; i < fetch.lines; ++i, fetch.from += kLineBytes)
        _mm_prefetch(fetch.from, _MM_HINT_T1);
      for (int r = 0; r < kRows; ++r) {
        const __m512 xk = Arithmetic::broadcast(x + std::size_t(r) * job.n_in + k);
        for (int v = 0; v < kVectors; ++v) {
          sum[r][v] = Arithmetic::multiply_add(xk, weights[v], sum[r][v]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        const int left = job.n_columns - v * kLanes;
        if (left <= 0) continue;
        const auto mask = __mmask16(left >= kLanes ? 0xFFFFU : (1U << left) - 1U);
        float* out = y + r * job.y_stride + v * kLanes;
        const __m512 before = begin == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, out);
        // Not added to zero: that would turn −0 into 0.
        const __m512 total = begin == 0 ? sum[r][v] : _mm512_add_ps(before, sum[r][v]);
        _mm512_mask_storeu_ps(out, mask, total);
      }
    }
  }
}

template <class Arithmetic, int kRows, int kVectors>
inline void multiply_rest(const FewRowsJob& job, int n_rows, const typename Arithmetic::Element* x,
                          float* y, Fetch& fetch) {
  if constexpr (kRows > 0) {
    if (n_rows == kRows) return multiply_rows<Arithmetic, kRows, kVectors>(job, x, y, fetch);
    multiply_rest<Arithmetic, kRows - 1, kVectors>(job, n_rows, x, y, fetch);
  }
}

template <class Arithmetic, int kVectors>
void multiply_panel(const FewRowsJob& job) {
  const auto* x = static_cast<const typename Arithmetic::Element*>(job.x);
  float* y = job.y;
  const int later_passes = (job.n_rows + kRowsAtOnce - 1) / kRowsAtOnce - 1;
  Fetch fetch{static_cast<const char*>(job.next_panel), 0};
  for (int left = job.n_rows; left > 0;) {
    // 7 rows as 4 + 3, not as 6 + 1: each pass over the panel costs its loads.
    const int n =
        left > kRowsAtOnce && left < 2 * kRowsAtOnce ? (left + 1) / 2 : smaller(left, kRowsAtOnce);
    multiply_rest<Arithmetic, kRowsAtOnce, kVectors>(job, n, x, y, fetch);
    // A step reads kVectors lines. More than two fetched meanwhile were slower than a part of them.
    if (job.next_panel != nullptr && later_passes > 0)
      fetch.lines = smaller(kMaxLines, (kVectors + later_passes - 1) / later_passes);
    x += std::size_t(n) * job.n_in;
    y += n * job.y_stride;
    left -= n;
  }
}

template <class Arithmetic>
void multiply(const FewRowsJob& job) {
  switch ((job.n_columns + kLanes - 1) / kLanes) {
    case 1:
      return multiply_panel<Arithmetic, 1>(job);
    case 2:
      return multiply_panel<Arithmetic, 2>(job);
    case 3:
      return multiply_panel<Arithmetic, 3>(job);
    default:
      return multiply_panel<Arithmetic, 4>(job);
  }
}

}  // namespace
}  // namespace kvscope::cpu
