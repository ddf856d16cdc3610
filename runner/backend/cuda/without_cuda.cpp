// cuda_support() of a program that was built without the CUDA toolkit.
#include "runner/backend/cuda/cuda_backend.h"

namespace kvscope {

CudaSupport cuda_support() {
  CudaSupport support;
  support.description = "cmake --preset cuda builds one with it";
  return support;
}

}  // namespace kvscope
