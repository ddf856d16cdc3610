// That the fast paths are really there: without them everything still works, slowly and in silence.
// Their bits are in matmul_test.cpp (every number of rows) and attention_test.cpp.
#include "runner/backend/cpu/few_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "runner/backend/cpu/attend_block_bf16.h"
#include "runner/backend/cpu/onednn_context.h"
#include "runner/backend/cpu/onednn_matrix.h"

namespace kvscope::cpu {
namespace {

TEST(FewRows, AreBuiltForWhatTheProcessorHas) {
#if defined(__x86_64__)
  EXPECT_EQ(has_few_rows_f32(), bool(__builtin_cpu_supports("avx512f")));
  EXPECT_EQ(has_few_rows_bf16(), bool(__builtin_cpu_supports("avx512bf16")));
  EXPECT_EQ(has_native_bf16_attention(64), bool(__builtin_cpu_supports("avx512bf16")));
#else
  EXPECT_FALSE(has_few_rows_f32());
#endif
  EXPECT_FALSE(has_native_bf16_attention(20));  // no whole vectors
}

TEST(FewRows, StandInForOneDnn) {
  const OneDnnSupport support = onednn_support();
  OneDnnContext context(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const bool wide = dtype == DType::kF32;
    if (!(wide ? support.f32 && has_few_rows_f32() : support.bf16 && has_few_rows_bf16())) {
      GTEST_SKIP() << "no AVX-512 kernels here for " << name_of(dtype);
    }
    for (const int n_in : {64, 576, 1536}) {
      const PanelOrder order = context.panel_order(64, n_in, dtype);
      EXPECT_EQ(order.panel_columns, 64) << name_of(dtype) << ' ' << n_in;
      EXPECT_GT(order.chunk, 0) << name_of(dtype) << ' ' << n_in;
    }
  }
}

// y = Σ of chains over chunks: literal values in which every sum is exact.
TEST(FewRows, MultiplyPartOfAPanelInChunks) {
  if (!has_few_rows_f32()) GTEST_SKIP() << "no AVX-512 here";
  constexpr int kIn = 6;
  constexpr int kColumns = 64;
  std::vector<float> panel(kIn * kColumns);
  for (int k = 0; k < kIn; ++k) {
    for (int c = 0; c < kColumns; ++c) panel[k * kColumns + c] = float(c + 100 * k);
  }
  std::vector<float> x(7 * kIn);
  for (int r = 0; r < 7; ++r) {
    for (int k = 0; k < kIn; ++k) x[r * kIn + k] = float(r + 1);
  }
  std::vector<float> y(7 * 20, -1.0F);
  FewRowsJob job;
  job.panel = panel.data() + 32;  // columns 32 … 50
  job.x = x.data();
  job.y = y.data();
  job.y_stride = 20;
  job.n_rows = 7;
  job.n_in = kIn;
  job.panel_columns = kColumns;
  job.n_columns = 19;
  job.chunk = 4;
  few_rows_f32(job);
  for (int r = 0; r < 7; ++r) {
    for (int c = 0; c < 19; ++c)
      EXPECT_EQ(y[r * 20 + c], float((r + 1) * (6 * (32 + c) + 100 * 15))) << r << ' ' << c;
    EXPECT_EQ(y[r * 20 + 19], -1.0F);  // beyond the job's columns
  }
}

}  // namespace
}  // namespace kvscope::cpu
