// Results of runtime calls as exceptions. Included through gpu_runtime.h.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "runner/backend/cuda/cuda_error.h"

namespace kvscope::cuda {

// call: the name of the function whose result this is.
inline void gpu_check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  const std::string message =
      std::string(call) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
  if (error == cudaErrorMemoryAllocation) throw DeviceOutOfMemory(message);
  throw CudaError(message);
}

}  // namespace kvscope::cuda
