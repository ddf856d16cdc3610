// The runtime's calls: devices, memory, and errors that tests order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "gpu_runtime.h"
#include "tests/shim/machine.h"

namespace kvscope::cuda {
namespace {

using ::testing::HasSubstr;

__global__ void set_to(int* out, int value) { *out = value; }

TEST(ShimDevices, AreAsOrdered) {
  shim::Machine two;
  two.devices.resize(2);
  two.devices[1].name = "older";
  two.devices[1].compute_capability = 75;
  two.devices[1].memory_bytes = 1000;
  two.devices[1].concurrent_managed_access = false;
  const shim::MachineForTest guard(two);
  int n = 0;
  ASSERT_EQ(cudaGetDeviceCount(&n), cudaSuccess);
  EXPECT_EQ(n, 2);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_STREQ(properties.name, "older");
  EXPECT_EQ(properties.major, 7);
  EXPECT_EQ(properties.minor, 5);
  EXPECT_EQ(properties.totalGlobalMem, 1000U);
  EXPECT_EQ(properties.concurrentManagedAccess, 0);
  int value = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 1), cudaSuccess);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(ShimDevices, MayBeMissing) {
  shim::Machine none;
  none.devices.clear();
  const shim::MachineForTest guard(none);
  int n = 7;
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaErrorNoDevice);
  EXPECT_EQ(n, 0);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 1), cudaErrorNoDevice);
}

TEST(ShimDevices, DriverMayBeTooOldOrMissing) {
  shim::Machine old;
  old.driver_version = 12040;
  const shim::MachineForTest guard(old);
  int n = 0;
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
  int version = 0;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 12040);
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 13000);
}

TEST(ShimMemory, EndsAndIsCounted) {
  shim::Machine small;
  small.devices[0].memory_bytes = 1000 + shim::allocated_bytes();
  const shim::MachineForTest guard(small);
  void* a = nullptr;
  void* b = nullptr;
  void* pinned = nullptr;
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMalloc(&a, 600), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 400U);
  EXPECT_EQ(cudaMallocManaged(&b, 401, cudaMemAttachGlobal), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocManaged(&b, 400, cudaMemAttachGlobal), cudaSuccess);
  EXPECT_EQ(cudaMallocHost(&pinned, 5000), cudaSuccess) << "the host's, without that limit";
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 1000U);
  EXPECT_EQ(cudaMalloc(&a, std::size_t(-1)), cudaErrorMemoryAllocation);
  cudaGetLastError();
}

TEST(ShimMemory, IsFilledAndCopied) {
  auto* bytes = static_cast<unsigned char*>(nullptr);
  ASSERT_EQ(cudaMalloc(&bytes, 8), cudaSuccess);
  std::vector<unsigned char> host(8, 1);
  ASSERT_EQ(cudaMemcpy(host.data(), bytes, 8, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host, std::vector<unsigned char>(8, (unsigned char)(shim::config().fill)));
  ASSERT_EQ(cudaMemset(bytes, 3, 4), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(host.data(), bytes + 2, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host[1], 3);
  EXPECT_EQ(cudaMemcpy(host.data(), bytes + 4, 5, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(bytes + 7, 3, 2), cudaErrorInvalidValue);
  EXPECT_THROW(prefer_device(bytes, 9, 0), CudaError);
  prefetch_to_device(bytes, 8, 0, nullptr);
  cudaFree(bytes);
  cudaGetLastError();
}

TEST(ShimErrors, BecomeExceptions) {
  try {
    gpu_check(cudaErrorNoDevice, "cudaSetDevice");
    FAIL();
  } catch (const CudaError& error) {
    EXPECT_STREQ(error.what(),
                 "cudaSetDevice: cudaErrorNoDevice (no CUDA-capable device is detected)");
  }
  try {
    gpu_check(cudaErrorMemoryAllocation, "cudaMalloc");
    FAIL();
  } catch (const std::bad_alloc& error) {
    EXPECT_STREQ(error.what(), "cudaMalloc: cudaErrorMemoryAllocation (out of memory)");
  }
  gpu_check(cudaSuccess, "nothing");
}

class ShimTrouble : public ::testing::Test {
 protected:
  void SetUp() override {
    shim::config().lazy_streams = false;
    gpu_check(cudaMalloc(&p_, sizeof(int)), "cudaMalloc");
  }
  void TearDown() override {
    shim::revive_device();
    cudaFree(p_);
    cudaGetLastError();
    shim::config() = before_;
  }
  void set(int value) { launch(set_to, 1, 1, 0, nullptr, p_, value); }
  int get() {
    int value = 0;
    gpu_check(cudaMemcpy(&value, p_, sizeof value, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return value;
  }

  shim::Config before_ = shim::config();
  int* p_ = nullptr;
};

TEST_F(ShimTrouble, ALaunchIsRefused) {
  shim::refuse_launch(1, cudaErrorLaunchOutOfResources);
  set(1);
  try {
    set(2);
    FAIL();
  } catch (const CudaError& error) {
    EXPECT_THAT(error.what(), HasSubstr("kernel launch: cudaErrorLaunchOutOfResources"));
  }
  EXPECT_EQ(get(), 1);
  set(3);
  EXPECT_EQ(get(), 3);
}

TEST_F(ShimTrouble, TheDeviceIsLost) {
  set(1);
  shim::lose_device(0, cudaErrorIllegalAddress);
  set(2);  // accepted
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THROW(set(3), CudaError);
  void* other = nullptr;
  EXPECT_EQ(cudaMalloc(&other, 1), cudaErrorIllegalAddress);
  int value = 0;
  EXPECT_EQ(cudaMemcpy(&value, p_, sizeof value, cudaMemcpyDefault), cudaErrorIllegalAddress);
  shim::revive_device();
  EXPECT_EQ(get(), 1);
}

}  // namespace
}  // namespace kvscope::cuda
