// Streams and events, done at once and done late.
#include "tests/shim/streams.h"

#include <gtest/gtest.h>

#include <cstring>

#include "gpu_runtime.h"

namespace kvscope::cuda {
namespace {

__global__ void add_to(int* out, int value) { *out += value; }

class ShimStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    shim::config() = shim::Config{};
    shim::config().lazy_streams = true;
    gpu_check(cudaMallocManaged(&p_, sizeof(int)), "cudaMallocManaged");
    gpu_check(cudaMallocHost(&pinned_, sizeof(int)), "cudaMallocHost");
    gpu_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    *p_ = 0;
  }
  void TearDown() override {
    cudaStreamDestroy(stream_);
    cudaFree(p_);
    cudaFreeHost(pinned_);
    shim::config() = before_;
  }
  void add(int value) { launch(add_to, 1, 1, 0, stream_, p_, value); }

  shim::Config before_ = shim::config();
  cudaStream_t stream_ = nullptr;
  int* p_ = nullptr;
  int* pinned_ = nullptr;
};

TEST_F(ShimStreams, WorkWaitsForSomebodyToWait) {
  add(1);
  add(2);
  EXPECT_EQ(*p_, 0);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*p_, 3);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(ShimStreams, WorkIsDoneAtOnceUnlessOrdered) {
  shim::config().lazy_streams = false;
  add(1);
  EXPECT_EQ(*p_, 1);
}

TEST_F(ShimStreams, EventsMarkAPlace) {
  cudaEvent_t first = nullptr;
  cudaEvent_t second = nullptr;
  ASSERT_EQ(cudaEventCreate(&first), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&second, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(first), cudaSuccess) << "not recorded yet";
  add(1);
  ASSERT_EQ(cudaEventRecord(first, stream_), cudaSuccess);
  add(2);
  ASSERT_EQ(cudaEventRecord(second, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(first), cudaErrorNotReady);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(first), cudaSuccess);
  EXPECT_EQ(*p_, 1);
  EXPECT_EQ(cudaEventQuery(second), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(second), cudaSuccess);
  EXPECT_EQ(*p_, 3);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  cudaEventDestroy(first);
  cudaEventDestroy(second);
}

TEST_F(ShimStreams, CopiesReadPinnedMemoryLateAndOtherMemoryAtOnce) {
  int pageable = 5;
  ASSERT_EQ(cudaMemcpyAsync(p_, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  pageable = 6;
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(*p_, 5);
  *pinned_ = 7;
  ASSERT_EQ(cudaMemcpyAsync(p_, pinned_, sizeof(int), cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  *pinned_ = 8;  // too early: the copy is still to come
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(*p_, 8);
}

TEST_F(ShimStreams, CopiesToPageableMemoryWait) {
  add(4);
  int pageable = 0;
  cudaMemcpyAsync(pinned_, p_, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  EXPECT_EQ(*pinned_, -1) << "not yet: as it was filled";
  cudaMemcpyAsync(&pageable, p_, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  EXPECT_EQ(pageable, 4);
  EXPECT_EQ(*pinned_, 4);
}

TEST_F(ShimStreams, OnlyBlockingStreamsWaitForTheDefaultOne) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  add(1);
  launch(add_to, 1, 1, 0, blocking, p_, 10);
  cudaMemset(pinned_, 0, 0);
  int copy = 0;
  ASSERT_EQ(cudaMemcpy(&copy, p_, sizeof(int), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(copy, 10);
  cudaDeviceSynchronize();
  EXPECT_EQ(*p_, 11);
  cudaStreamDestroy(blocking);
}

TEST_F(ShimStreams, FreeingWaits) {
  int* other = nullptr;
  gpu_check(cudaMalloc(&other, sizeof(int)), "cudaMalloc");
  add(1);
  cudaMemcpyAsync(other, p_, sizeof(int), cudaMemcpyDefault, stream_);
  cudaFree(other);
  EXPECT_EQ(*p_, 1);
}

TEST_F(ShimStreams, UnknownStreams) {
  cudaStream_t gone = nullptr;
  ASSERT_EQ(cudaStreamCreate(&gone), cudaSuccess);
  cudaStreamDestroy(gone);
  EXPECT_EQ(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
  EXPECT_THROW(launch(add_to, 1, 1, 0, gone, p_, 1), shim::Error);
  cudaGetLastError();
}

}  // namespace
}  // namespace kvscope::cuda
