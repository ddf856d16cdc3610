// The runtime's calls about devices, versions and errors.
#include <algorithm>
#include <cstring>

#include "tests/shim/gpu_runtime.h"
#include "tests/shim/machine.h"

namespace kvscope::shim {
namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};

const ErrorText& text_of(cudaError_t error) {
  static constexpr ErrorText kUnknown{cudaErrorInvalidValue, "unrecognized error code",
                                      "unrecognized error code"};
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const ErrorText& known) { return known.error == error; });
  return found != std::end(kErrors) ? *found : kUnknown;
}

thread_local int current_device = 0;

// cudaSuccess and the device, or why not.
cudaError_t find_device(int index, const Device*& device) {
  const Machine& here = machine();
  if (here.devices.empty() || here.driver_version / 1000 < here.runtime_version / 1000)
    return device_state();
  if (index < 0 || index >= int(here.devices.size())) return cudaErrorInvalidDevice;
  device = &here.devices[std::size_t(index)];
  return cudaSuccess;
}

}  // namespace
}  // namespace kvscope::shim

namespace shim = kvscope::shim;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) { return shim::text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return shim::text_of(error).text; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = shim::machine().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = shim::machine().runtime_version;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* n) {
  *n = 0;
  const shim::Device* device = nullptr;
  const cudaError_t result = shim::find_device(0, device);
  if (result == cudaSuccess) *n = int(shim::machine().devices.size());
  return shim::note(result);
}

cudaError_t cudaSetDevice(int index) {
  const shim::Device* device = nullptr;
  const cudaError_t result = shim::find_device(index, device);
  if (result == cudaSuccess) shim::current_device = index;
  return shim::note(result);
}
cudaError_t cudaGetDevice(int* index) {
  *index = shim::current_device;
  return shim::note(shim::device_state());
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  const shim::Device* device = nullptr;
  const cudaError_t result = shim::find_device(index, device);
  if (result != cudaSuccess) return shim::note(result);
  std::memset(static_cast<void*>(properties), 0, sizeof *properties);
  std::strncpy(properties->name, device->name.c_str(), sizeof properties->name - 1);
  properties->totalGlobalMem = device->memory_bytes;
  properties->major = device->compute_capability / 10;
  properties->minor = device->compute_capability % 10;
  properties->warpSize = warpSize;
  properties->multiProcessorCount = device->n_multiprocessors;
  properties->maxThreadsPerBlock = 1024;
  properties->sharedMemPerBlock = std::size_t{48} << 10;
  properties->sharedMemPerBlockOptin = device->shared_bytes_per_block;
  properties->managedMemory = 1;
  properties->concurrentManagedAccess = device->concurrent_managed_access ? 1 : 0;
  properties->unifiedAddressing = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  const shim::Device* device = nullptr;
  const cudaError_t result = shim::find_device(index, device);
  if (result != cudaSuccess) return shim::note(result);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = device->compute_capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device->compute_capability % 10;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = device->n_multiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(device->shared_bytes_per_block);
      return cudaSuccess;
    case cudaDevAttrConcurrentManagedAccess:
      *value = device->concurrent_managed_access ? 1 : 0;
      return cudaSuccess;
    default:
      return shim::note(cudaErrorInvalidValue);
  }
}

}  // extern "C"
