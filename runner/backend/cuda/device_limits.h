// What a device reaches on plain work: stages are stated as shares of it.
#pragma once

#include <cstddef>

#include "runner/backend/cuda/cuda_backend.h"

namespace kvscope::cuda {

struct LimitSizes {
  std::size_t copy_bytes = std::size_t{1} << 30;  // beyond any cache
  int product_size = 8192;                        // of square matrices
  int rounds = 5;                                 // of which the best counts, after one to warm up
};

// Takes some tenths of a second and about three times the sizes in memory. Throws CudaError,
// DeviceOutOfMemory.
CudaLimits measure_device_limits(int device, const LimitSizes& sizes = {});

}  // namespace kvscope::cuda
