// Products of few rows (decode) with the panels that oneDNN packs, in oneDNN's order of summation,
// so that a row has the same bits by either. oneDNN's kernels need about 32 rows to come near the
// machine's limits; these stream the weights at memory speed from one row on.
#pragma once

#include <cstddef>

namespace kvscope::cpu {

struct FewRowsJob {
  const void* panel = nullptr;  // f32: [n_in][panel_columns]; bf16: [n_in / 2][panel_columns][2];
                                // from the job's first column on
  const void* x = nullptr;      // [n_rows][n_in] of the panel's type
  float* y = nullptr;           // row r at y + r * y_stride: [n_columns]
  std::size_t y_stride = 0;
  int n_rows = 0;
  int n_in = 0;
  int panel_columns = 0;  // of the whole panel
  int n_columns = 0;      // of the job, ≤ 64
  int chunk = 0;          // y = Σ over chunks of n_in, in order, of a chain of multiply-adds each
  const void* next_panel = nullptr;  // optional: fetched into the second-level cache meanwhile
};

void few_rows_f32(const FewRowsJob& job);   // needs AVX-512F
void few_rows_bf16(const FewRowsJob& job);  // needs AVX-512-BF16

// Whether this build and this processor can run them.
bool has_few_rows_f32();
bool has_few_rows_bf16();

}  // namespace kvscope::cpu
