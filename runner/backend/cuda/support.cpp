// cuda_support() of builds with the toolkit (and of the tests' build, which runs kernels on the
// CPU).
#include <algorithm>

#include "gpu_runtime.h"
#include "runner/backend/cuda/cuda_backend.h"
#include "runner/backend/cuda/cuda_error.h"
#include "runner/backend/cuda/device_backend.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

// The program was built for these and newer (CMake's architecture list).
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
  if (driver == 0) return "no NVIDIA driver: install one, or use --backend cpu";
  if (error == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000) {
    return "the NVIDIA driver supports CUDA " + version(driver) + ", this program was built with " +
           version(runtime) + ": update the driver, or use --backend cpu";
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess)
    return "no CUDA device: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --backend cpu";
  return std::string("CUDA: ") + cudaGetErrorString(error) +
         ": check nvidia-smi, or use --backend cpu";
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
                      std::to_string(properties.minor) + " is older than 8.0: use --backend cpu";
  } else if (properties.concurrentManagedAccess == 0) {
    device.unusable =
        "the host cannot share memory with it (no concurrent managed access): use --backend cpu";
  }
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaSetDevice(index) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess)
    device.free_bytes = std::int64_t(free);
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
  std::string why;
  const std::vector<CudaDevice> devices = look_at_all(why);
  if (devices.empty()) throw UsageError(why);
  if (options.device < 0 || options.device >= int(devices.size())) {
    throw UsageError("--device " + std::to_string(options.device) + ": there are " +
                     std::to_string(devices.size()) + " (from 0): see kvscope doctor");
  }
  const CudaDevice& device = devices[options.device];
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
  return {true, "CUDA " + version(runtime), look_at_all, open_device};
}

}  // namespace kvscope
