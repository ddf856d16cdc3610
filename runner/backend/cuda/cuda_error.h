// What goes wrong with a device, without a CUDA type.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

namespace kvscope::cuda {

// A call of the runtime or of cuBLAS failed.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// No room left on the device: a bad_alloc, so that the arm becomes an out-of-memory row wherever
// the host's own memory would have made it one.
class DeviceOutOfMemory : public std::bad_alloc {
 public:
  explicit DeviceOutOfMemory(const std::string& message) : message_(message) {}
  const char* what() const noexcept override { return message_.what(); }

 private:
  std::runtime_error message_;  // copies without throwing, which a std::string does not
};

}  // namespace kvscope::cuda
