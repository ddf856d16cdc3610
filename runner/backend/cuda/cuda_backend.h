// The CUDA backend, without a CUDA type: what the program needs to know to offer it. Three
// libraries define cuda_support(): the real one, one for builds without the toolkit, and the one
// that tests build, which runs the kernels on the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runner/backend/backend.h"

namespace kvscope {

struct CudaDevice {
  int index = 0;
  std::string name;
  int compute_capability = 0;  // major · 10 + minor
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;
  std::string unusable;  // why it cannot be used and what to do; empty: it can
};

struct CudaOptions {
  int device = 0;
  // Most device memory to use; 0: what is free when the backend is made, less a reserve.
  std::int64_t memory_bytes = 0;
};

// What a device reaches on plain work, to hold stages against.
struct CudaLimits {
  double copy_bytes_per_second = 0.0;  // read and written by a large copy within the device
  double f32_flops_per_second = 0.0;   // of a large product
  double bf16_flops_per_second = 0.0;
};

struct CudaSupport {
  bool is_built = false;    // if not, none of the functions is there
  std::string description;  // toolkit and architectures built for, or why there are none
  // The machine's devices; where there are none, or no driver that suits, `why` gets one line that
  // says so and what to do.
  std::function<std::vector<CudaDevice>(std::string& why)> devices;
  // Throws UsageError (no such device, no driver, an architecture that was not built for).
  std::function<std::unique_ptr<Backend>(const CudaOptions&)> open;
  // Optional. Takes some tenths of a second.
  std::function<CudaLimits(int device)> measure_limits;
};

CudaSupport cuda_support();

}  // namespace kvscope
