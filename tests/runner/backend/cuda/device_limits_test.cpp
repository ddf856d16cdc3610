// How fast anything is, is not looked at.
#include "runner/backend/cuda/device_limits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runner/backend/cuda/device_array.h"

namespace kvscope::cuda {
namespace {

using DeviceLimits = testing::DeviceTest;

TEST_F(DeviceLimits, AreMeasured) {
  const CudaLimits limits = measure_device_limits(0, {1 << 16, 32, 2});
  for (const double rate :
       {limits.copy_bytes_per_second, limits.f32_flops_per_second, limits.bf16_flops_per_second}) {
    EXPECT_TRUE(std::isfinite(rate));
    EXPECT_GT(rate, 0.0);
  }
}

}  // namespace
}  // namespace kvscope::cuda
