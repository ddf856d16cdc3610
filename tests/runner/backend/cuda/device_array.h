// Arrays in device memory and a fixture that skips where there is no device. Where kernels run on
// the CPU an array is heap memory of exactly its size, so AddressSanitizer sees what goes beyond.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "gpu_runtime.h"

namespace kvscope::cuda::testing {

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : n_(n) {
    void* memory = nullptr;
    gpu_check(cudaMalloc(&memory, n * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { write(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_), n_(other.n_) {
    other.data_ = nullptr;
  }
  DeviceArray& operator=(DeviceArray&&) = delete;

  T* data() const { return data_; }
  void write(const std::vector<T>& values) {
    gpu_check(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "write");
  }
  std::vector<T> read() const {  // after all that was launched
    gpu_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::vector<T> values(n_);
    gpu_check(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "read");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
      GTEST_SKIP() << "no CUDA device";
  }
};

}  // namespace kvscope::cuda::testing
