// What AddressSanitizer must see in kernels; skipped in programs without it. And what is seen
// there.
#include <gtest/gtest.h>

#include "gpu_runtime.h"

namespace kvscope::cuda {
namespace {

constexpr int kThreads = 64;

__global__ void store_at(int* out, int i) {
  if (threadIdx.x == 0) out[i] = 1;
}

__global__ void store_beyond_array(int* out) {
  KSHARED(int, first, kThreads);
  KSHARED(int, second, kThreads);
  int* from_second = first + 1;  // UBSan knows the array's size, but not the pointer's
  from_second[threadIdx.x] = second[threadIdx.x] = 1;
  out[threadIdx.x] = first[threadIdx.x];
}

__global__ void store_beyond_dynamic(int* out) {
  KSMEM(memory);
  reinterpret_cast<int*>(memory)[threadIdx.x + 1] = 1;
  out[threadIdx.x] = 1;
}

__global__ void store_beyond_stack(int* out, int n) {
  int local[8] = {};
  for (int i = 0; i < n; ++i) local[i] = i;
  out[threadIdx.x] = local[threadIdx.x % 8];
}

class ShimUnderAsan : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "built without AddressSanitizer";
#endif
    gpu_check(cudaMalloc(&out_, kThreads * sizeof(int)), "cudaMalloc");
  }
  void TearDown() override { cudaFree(out_); }

  template <class Kernel, class... Arguments>
  void run(Kernel kernel, Arguments... arguments) {
    launch(kernel, dim3(1), dim3(kThreads), kThreads * sizeof(int), nullptr, out_, arguments...);
    cudaDeviceSynchronize();
  }

  int* out_ = nullptr;
};
using ShimUnderAsanDeathTest = ShimUnderAsan;

TEST_F(ShimUnderAsanDeathTest, GlobalMemory) {
  run(store_at, kThreads - 1);
  EXPECT_DEATH(run(store_at, kThreads), "heap-buffer-overflow");
  EXPECT_DEATH(run(store_at, -1), "heap-buffer-overflow");
}

TEST_F(ShimUnderAsanDeathTest, FreedMemory) {
  EXPECT_DEATH(
      {
        cudaFree(out_);
        run(store_at, 0);
      },
      "heap-use-after-free");
}

TEST_F(ShimUnderAsanDeathTest, SharedMemory) {
  EXPECT_DEATH(run(store_beyond_array), "use-after-poison");
  EXPECT_DEATH(run(store_beyond_dynamic), "heap-buffer-overflow");
}

TEST_F(ShimUnderAsanDeathTest, LocalMemory) {
  run(store_beyond_stack, 8);
  EXPECT_DEATH(run(store_beyond_stack, 9), "stack-buffer-overflow|index 8 out of bounds");
}

TEST_F(ShimUnderAsanDeathTest, CopiesBetweenHostAndDevice) {
  int two[2] = {};
  EXPECT_DEATH(cudaMemcpy(two, out_, 3 * sizeof(int), cudaMemcpyDeviceToHost),
               "stack-buffer-overflow");
}

TEST(ShimDeathTest, StoresBehindABlockAreFoundWhenItIsFreed) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer sees them at once";
#endif
  EXPECT_DEATH(
      {
        int* out = nullptr;
        cudaMalloc(&out, kThreads * sizeof(int));
        launch(store_at, dim3(1), dim3(1), 0, nullptr, out, kThreads);
        cudaDeviceSynchronize();
        cudaFree(out);
      },
      "stored 1 bytes beyond the end of 256 bytes");
}

}  // namespace
}  // namespace kvscope::cuda
