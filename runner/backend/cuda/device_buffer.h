// Memory of the device alone, kept from call to call: scratch of kernels, weights.
#pragma once

#include <cstddef>
#include <utility>

#include "gpu_runtime.h"
#include "runner/backend/cuda/unified_memory.h"

namespace kvscope::cuda {

class DeviceBuffer {
 public:
  explicit DeviceBuffer(UnifiedMemory& account) : account_(&account) {}
  DeviceBuffer(UnifiedMemory& account, std::size_t bytes) : account_(&account) { reserve(bytes); }
  ~DeviceBuffer() { release(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : account_(other.account_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  // At least `bytes`, contents undefined; earlier pointers are void where it grows.
  template <class T>
  T* get(std::size_t n) {
    if (bytes_ < n * sizeof(T)) {
      release();
      reserve(n * sizeof(T));
    }
    return static_cast<T*>(data_);
  }
  void release() {
    if (data_ == nullptr) return;
    account_->settle();  // nothing reads it any more
    cudaFree(data_);
    account_->charge(-std::int64_t(std::exchange(bytes_, 0)));
    data_ = nullptr;
  }
  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  void reserve(std::size_t bytes) {
    if (bytes == 0) return;
    account_->charge(std::int64_t(bytes));
    try {
      gpu_check(cudaMalloc(&data_, bytes), "cudaMalloc");
    } catch (...) {
      account_->charge(-std::int64_t(bytes));
      throw;
    }
    bytes_ = bytes;
  }
  UnifiedMemory* account_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace kvscope::cuda
