// What the engine must do for right kernels and say of wrong ones.
#include "tests/shim/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gpu_runtime.h"

namespace kvscope::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int kThreads = 64;
constexpr unsigned kAll = 0xFFFFFFFFU;

// ---------------------------------------------------------------- kernels without fault

__global__ void reversed(int* out) {
  KSHARED(int, values, kThreads);
  const int t = int(threadIdx.x);
  values[t] = t;
  __syncthreads();
  out[t] = values[kThreads - 1 - t];
}

__global__ void indices(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + t] += int(block * 1000 + t);
}

__global__ void warp_operations(int* out) {
  const int lane = int(threadIdx.x);
  out[lane] = __shfl_sync(kAll, lane, 5);
  out[32 + lane] = __shfl_xor_sync(kAll, lane, 3);
  out[64 + lane] = __shfl_up_sync(kAll, lane, 2);
  out[96 + lane] = __shfl_down_sync(kAll, lane, 2, 8);
  out[128 + lane] = int(__ballot_sync(kAll, lane % 3 == 0));
  out[160 + lane] = __reduce_max_sync(kAll, lane ^ 7);
  out[192 + lane] = __any_sync(kAll, lane == 31) + 2 * __all_sync(kAll, lane < 31);
}

__global__ void half_warps(int* out) {  // each half has its own mask and its own way
  const int lane = int(threadIdx.x);
  if (lane < 16) {
    out[lane] = __shfl_xor_sync(0xFFFFU, lane, 1);
  } else {
    out[lane] = __shfl_xor_sync(0xFFFF0000U, lane, 2);
  }
}

__global__ void counted(int* out) {
  const int odd = __syncthreads_count(int(threadIdx.x) % 2);
  const int any = __syncthreads_or(threadIdx.x == 63);
  const int all = __syncthreads_and(threadIdx.x < 63);
  out[threadIdx.x] = odd + 100 * any + 1000 * all;
}

__global__ void summed(int* out) { atomicAdd(out, int(threadIdx.x)); }

__global__ void fresh_shared(int* out) {  // what shared memory holds before anyone writes
  KSHARED(int, values, 4);
  KSMEM(memory);
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = values[1];
    out[2 * blockIdx.x + 1] = reinterpret_cast<int*>(memory)[1];
  }
  values[1] = reinterpret_cast<int*>(memory)[1] = 7;
}

// ---------------------------------------------------------------- wrong kernels

__global__ void no_barrier(int* out) {
  KSHARED(int, values, kThreads);
  const int t = int(threadIdx.x);
  values[t] = t;
  out[t] = values[kThreads - 1 - t];
}

__global__ void no_warp_barrier(int* out) {
  KSHARED(int, values, kThreads);
  const int t = int(threadIdx.x);
  values[t] = t;
  out[t] = values[t ^ 1];
}

__global__ void barrier_for_some(int*) {
  if (threadIdx.x < 40) __syncthreads();
}

__global__ void barrier_after_exit(int*) {
  if (threadIdx.x < 10) return;
  __syncthreads();
}

__global__ void two_barriers(int*) {
  if (threadIdx.x % 2 == 1) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void shuffle_for_some(int* out) {
  if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_xor_sync(kAll, 1, 1);
}

__global__ void shuffle_from_outside(int* out) {
  if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_sync(0xFFFFU, 1, 20);
}

__global__ void not_in_own_mask(int* out) { out[threadIdx.x] = __shfl_sync(0xFFFFU, 1, 0); }

__global__ void different_masks(int*) { __syncwarp(threadIdx.x % 32 == 0 ? kAll : kAll - 1); }

__global__ void different_operations(int* out) {
  out[threadIdx.x] = threadIdx.x % 2 == 0 ? __shfl_sync(kAll, 1, 0) : int(__ballot_sync(kAll, 1));
}

__global__ void barrier_meets_shuffle(int* out) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    out[threadIdx.x] = __shfl_sync(kAll, 1, 0);
  }
}

__global__ void too_much_static(int* out) {
  KSHARED(int, values, 13 * 1024);
  out[threadIdx.x] = values[0];
}

// ----------------------------------------------------------------

class ShimEngine : public ::testing::Test {
 protected:
  void SetUp() override { shim::config() = shim::Config{}; }
  void TearDown() override { shim::config() = before_; }

  std::vector<int> run(void (*kernel)(int*), dim3 grid, dim3 block, int n_out) {
    int* out = nullptr;
    gpu_check(cudaMalloc(&out, std::size_t(n_out) * sizeof(int)), "cudaMalloc");
    std::vector<int> values(std::size_t(n_out), 0);
    gpu_check(cudaMemset(out, 0, std::size_t(n_out) * sizeof(int)), "cudaMemset");
    try {
      launch(kernel, grid, block, 64, nullptr, out);
      cudaMemcpy(values.data(), out, values.size() * sizeof(int), cudaMemcpyDeviceToHost);
    } catch (...) {
      cudaFree(out);
      throw;
    }
    cudaFree(out);
    return values;
  }
  std::vector<int> run(void (*kernel)(int*)) { return run(kernel, 1, kThreads, kThreads); }

  std::string complaint(void (*kernel)(int*), dim3 grid = 1, dim3 block = kThreads) {
    try {
      run(kernel, grid, block, kThreads);
    } catch (const shim::Error& error) {
      return error.what();
    }
    return "none";
  }
  std::set<std::vector<int>> results_of_orders(void (*kernel)(int*)) {
    std::set<std::vector<int>> results;
    for (const auto order : {shim::Order::kForward, shim::Order::kReverse, shim::Order::kRandom}) {
      shim::config().order = order;
      results.insert(run(kernel));
    }
    return results;
  }

  shim::Config before_ = shim::config();
};

TEST_F(ShimEngine, BarriersOrderThreads) {
  std::vector<int> expected;
  for (int t = 0; t < kThreads; ++t) expected.push_back(kThreads - 1 - t);
  EXPECT_EQ(results_of_orders(reversed), std::set<std::vector<int>>{expected});
}

TEST_F(ShimEngine, EachThreadOfEachBlockRunsOnce) {
  const dim3 grid(2, 3, 2);
  const dim3 block(4, 3, 2);
  std::vector<int> expected;
  for (int b = 0; b < 12; ++b) {
    for (int t = 0; t < 24; ++t) expected.push_back(b * 1000 + t);
  }
  for (const auto order : {shim::Order::kForward, shim::Order::kReverse, shim::Order::kRandom}) {
    shim::config().order = order;
    EXPECT_EQ(run(indices, grid, block, 288), expected);
  }
  EXPECT_EQ(run(indices, 2, 1024, 2048).back(), 2023);
}

TEST_F(ShimEngine, WarpOperations) {
  const std::vector<int> out = run(warp_operations, 1, 32, 224);
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], 5);
    EXPECT_EQ(out[32 + lane], lane ^ 3);
    EXPECT_EQ(out[64 + lane], lane < 2 ? lane : lane - 2);
    EXPECT_EQ(out[96 + lane], lane % 8 >= 6 ? lane : lane + 2);
    EXPECT_EQ(unsigned(out[128 + lane]), 0x49249249U);
    EXPECT_EQ(out[160 + lane], 31);
    EXPECT_EQ(out[192 + lane], 1);
  }
}

TEST_F(ShimEngine, PartsOfAWarpGoTheirOwnWays) {
  const std::vector<int> out = run(half_warps, 1, 32, 32);
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], lane ^ (lane < 16 ? 1 : 2));
}

TEST_F(ShimEngine, BarriersCount) { EXPECT_EQ(run(counted), std::vector<int>(kThreads, 132)); }

TEST_F(ShimEngine, Atomics) { EXPECT_EQ(run(summed, 3, kThreads, 1)[0], 3 * 2016); }

TEST_F(ShimEngine, SharedMemoryIsFilledForEachBlock) {
  EXPECT_EQ(run(fresh_shared, 2, kThreads, 4), std::vector<int>(4, -1));
  shim::config().fill = 0x7F;
  EXPECT_EQ(run(fresh_shared, 2, kThreads, 4), std::vector<int>(4, 0x7F7F7F7F));
}

TEST_F(ShimEngine, HostThreadsTakeTurns) {
  std::vector<std::thread> threads;
  std::vector<int> last(2);
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n) last[i] = run(reversed)[5];
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(last, std::vector<int>(2, 58));
}

TEST_F(ShimEngine, OrdersTellWhereABarrierIsMissing) {
  EXPECT_GT(results_of_orders(no_barrier).size(), 1U);
  EXPECT_GT(results_of_orders(no_warp_barrier).size(), 1U);
}

TEST_F(ShimEngine, SeedsGiveDifferentOrders) {
  shim::config().order = shim::Order::kRandom;
  std::set<std::vector<int>> results;
  for (int seed = 1; seed <= 4; ++seed) {
    shim::config().seed = seed;
    results.insert(run(no_warp_barrier));
    EXPECT_EQ(results.count(run(no_warp_barrier)), 1U) << "the same seed, another order";
  }
  EXPECT_GT(results.size(), 2U);
}

TEST_F(ShimEngine, DivergentBarriers) {
  EXPECT_THAT(complaint(barrier_for_some), HasSubstr("barrier divergence: thread exits"));
  EXPECT_THAT(complaint(barrier_after_exit), HasSubstr("barrier divergence: 10 threads"));
  EXPECT_THAT(complaint(two_barriers), HasSubstr("barrier divergence: engine_test.cpp:"));
  // Who waits where.
  EXPECT_THAT(complaint(barrier_for_some),
              HasSubstr("40 threads (first 0): at __syncthreads engine_test.cpp:"));
}

TEST_F(ShimEngine, Masks) {
  EXPECT_THAT(complaint(shuffle_for_some), HasSubstr("lanes of its warp wait for it"));
  EXPECT_THAT(complaint(shuffle_for_some, 1, 16), HasSubstr("lanes that the block does not have"));
  EXPECT_THAT(complaint(shuffle_from_outside), HasSubstr("lane 20 outside its mask"));
  EXPECT_THAT(complaint(not_in_own_mask), HasSubstr("not named in its own mask"));
  EXPECT_THAT(complaint(different_masks), HasSubstr("overlapping but different masks"));
  shim::config().order = shim::Order::kReverse;
  EXPECT_THAT(complaint(shuffle_for_some), HasSubstr("exited lanes"));
  EXPECT_THAT(complaint(different_masks), HasSubstr("exited lanes"));
}

TEST_F(ShimEngine, DivergentWarpOperations) {
  EXPECT_THAT(complaint(different_operations), HasSubstr("divergent warp operation"));
  EXPECT_THAT(complaint(barrier_meets_shuffle), HasSubstr("deadlock"));
}

TEST_F(ShimEngine, LaunchLimits) {
  EXPECT_THAT(complaint(reversed, 0), HasSubstr("grid of 0"));
  EXPECT_THAT(complaint(reversed, dim3(1, 65536)), HasSubstr("grid of 1 × 65536"));
  EXPECT_THAT(complaint(reversed, 1, 0), HasSubstr("block of 0"));
  EXPECT_THAT(complaint(reversed, 1, 1025), HasSubstr("block of 1025"));
  EXPECT_THAT(complaint(too_much_static), HasSubstr("static shared memory"));
  const std::size_t most = shim::machine().devices[0].shared_bytes_per_block;
  EXPECT_THROW(launch(reversed, 1, kThreads, most + 1, nullptr, nullptr), shim::Error);
  // Alone, `most` would fit, but not beside the kernel's own array.
  int* out = nullptr;
  gpu_check(cudaMalloc(&out, kThreads * sizeof(int)), "cudaMalloc");
  EXPECT_THROW(launch(reversed, 1, kThreads, most, nullptr, out), shim::Error);
  launch(reversed, 1, kThreads, most - kThreads * sizeof(int), nullptr, out);
  cudaFree(out);
}

TEST_F(ShimEngine, AFailedLaunchLeavesTheNextOneAlone) {
  EXPECT_NE(complaint(barrier_for_some), "none");
  EXPECT_EQ(run(reversed)[0], kThreads - 1);
}

}  // namespace
}  // namespace kvscope::cuda
