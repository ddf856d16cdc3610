// That something is measured; how much is the machine's affair.
#include "runner/backend/cpu/machine_limits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvscope::cpu {
namespace {

TEST(MachineLimits, AreMeasuredOnAnyNumberOfThreads) {
  for (const int n_threads : {1, 3}) {
    ThreadPool pool(n_threads);
    const MachineLimits limits = measure_machine_limits(pool, {0.0, 1 << 20});
    EXPECT_NE(limits.vector_target, "");
    EXPECT_TRUE(std::isfinite(limits.f32_flops_per_second));
    EXPECT_GT(limits.f32_flops_per_second, 0);
    EXPECT_TRUE(std::isfinite(limits.read_bytes_per_second));
    EXPECT_GT(limits.read_bytes_per_second, 0);
    EXPECT_EQ(limits.bf16_flops_per_second.has_value(), has_bf16_dot());
    if (has_bf16_dot()) EXPECT_GT(*limits.bf16_flops_per_second, 0);
  }
}

TEST(MachineLimits, TheBf16LoopComputesWhatItSays) {
  if (!has_bf16_dot()) GTEST_SKIP() << "no dot product of bf16 in this processor";
  // 12 chains that start at 0 … 11, of 16 lanes, gain 2 · 2⁻²⁰ a round.
  EXPECT_EQ(bf16_dot_chains(0), 66.0F * 16);
  EXPECT_EQ(bf16_dot_chains(1 << 10) - bf16_dot_chains(0), 12 * 16 * 0x1p-9F);
}

}  // namespace
}  // namespace kvscope::cpu
