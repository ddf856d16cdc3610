// cuda_support() of builds without the toolkit.
#include "runner/backend/cuda/cuda_backend.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr const char* kWhy =
    "this program was built without CUDA: configure with -DKVSCOPE_CUDA=ON";

}  // namespace

CudaSupport cuda_support() {
  CudaSupport support;
  support.description = "built without CUDA";
  support.devices = [](std::string& why) {
    why = kWhy;
    return std::vector<CudaDevice>();
  };
  support.open = [](const CudaOptions&) -> std::unique_ptr<Backend> { throw UsageError(kWhy); };
  return support;
}

}  // namespace kvscope
