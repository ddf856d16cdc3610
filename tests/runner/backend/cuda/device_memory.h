// Buffers that kernels under test read and write, on a device or under the shim.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gpu_runtime.h"

namespace kvscope::cuda {

// Why there is nothing to test on; empty where there is a device.
inline std::string no_device() {
  int n = 0;
  const cudaError_t error = cudaGetDeviceCount(&n);
  if (error == cudaSuccess && n > 0) return {};
  return std::string("no CUDA device: ") + cudaGetErrorString(error);
}

// A test that needs a device is skipped, visibly, where there is none.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
  }
};

// n values of T, exactly: an access beyond them is one that sanitizers see. T is trivially
// copyable.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : n_(n) {
    void* p = nullptr;
    gpu_check(cudaMalloc(&p, n * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(p);
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) { set(values); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(std::span<const T>(values)) {}
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return n_; }

  void set(std::span<const T> values) {
    gpu_check(cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
              "cudaMemcpy");
  }
  // Waits for what kernels do.
  std::vector<T> get() const {
    gpu_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::vector<T> values(n_);
    gpu_check(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

}  // namespace kvscope::cuda
