// cuda_support() of builds with the toolkit (and of the tests' build, which runs kernels on the
// CPU).
#include <algorithm>

#include "gpu_runtime.h"
#include "runner/backend/cuda/architectures.h"
#include "runner/backend/cuda/cuda_backend.h"
#include "runner/backend/cuda/cuda_error.h"
#include "runner/backend/cuda/device_backend.h"
#include "runner/backend/cuda/device_limits.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kOldestCapability = 80;
// Left to the driver and to whoever draws the screen.
constexpr std::int64_t kReserveBytes = std::int64_t{512} << 20;

std::string version(int number) {  // 13000 → 13.0
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string no_device(cudaError_t error) {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver: install one";
  if (error == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000) {
    return "the NVIDIA driver supports CUDA " + version(driver) + ", this program was built with " +
           version(runtime) + ": update the driver";
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess)
    return "no CUDA device: check nvidia-smi and CUDA_VISIBLE_DEVICES";
  return std::string("CUDA: ") + cudaGetErrorString(error) + ": check nvidia-smi";
}

CudaDevice look_at(int index) {
  CudaDevice device;
  device.index = index;
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess) {
    device.unusable = cudaGetErrorString(error);
    return device;
  }
  device.name = properties.name;
  device.compute_capability = properties.major * 10 + properties.minor;
  device.total_bytes = std::int64_t(properties.totalGlobalMem);
  if (device.compute_capability < kOldestCapability) {
    device.unusable = "compute capability " + std::to_string(properties.major) + "." +
                      std::to_string(properties.minor) + " is older than 8.0";
  } else if (!cuda::runs_on(KVSCOPE_CUDA_BUILT_FOR, device.compute_capability)) {
    device.unusable = "this program was built for " KVSCOPE_CUDA_BUILT_FOR
                      " alone: configure with -DKVSCOPE_CUDA_ARCHITECTURES=" +
                      std::to_string(device.compute_capability) + "-real";
  } else if (properties.concurrentManagedAccess == 0) {
    device.unusable = "the host cannot share memory with it (no concurrent managed access)";
  }
  std::size_t free = 0;
  std::size_t total = 0;
  cudaError_t error = cudaSetDevice(index);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free, &total);
  device.free_bytes = std::int64_t(free);
  if (error != cudaSuccess && device.unusable.empty()) device.unusable = cudaGetErrorString(error);
  return device;
}

std::vector<CudaDevice> look_at_all(std::string& why) {
  int n = 0;
  const cudaError_t error = cudaGetDeviceCount(&n);
  std::vector<CudaDevice> devices;
  if (error != cudaSuccess || n == 0) {
    why = no_device(error);
    return devices;
  }
  for (int i = 0; i < n; ++i) devices.push_back(look_at(i));
  return devices;
}

std::unique_ptr<Backend> open_device(const CudaOptions& options) {
  int n = 0;
  const cudaError_t error = cudaGetDeviceCount(&n);
  if (error != cudaSuccess || n == 0) throw UsageError(no_device(error));
  if (options.device < 0 || options.device >= n) {
    throw UsageError("--device " + std::to_string(options.device) + ": there are " +
                     std::to_string(n) + " (from 0): see kvscope doctor");
  }
  // Only this one: to look at a device takes some of its memory.
  const CudaDevice device = look_at(options.device);
  if (!device.unusable.empty())
    throw UsageError("device " + std::to_string(device.index) + " (" + device.name +
                     "): " + device.unusable);
  const std::int64_t most = options.memory_bytes > 0
                                ? options.memory_bytes
                                : std::max<std::int64_t>(0, device.free_bytes - kReserveBytes);
  return std::make_unique<cuda::DeviceBackend>(device, most);
}

}  // namespace

CudaSupport cuda_support() {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  return {true, "CUDA " + version(runtime) + ", architectures " KVSCOPE_CUDA_BUILT_FOR, look_at_all,
          open_device, [](int device) { return cuda::measure_device_limits(device); }};
}

}  // namespace kvscope
