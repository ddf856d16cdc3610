// Where shared memory is to lie, in the words of the toolkit that is there.
#include "gpu_runtime.h"

namespace kvscope::cuda {

#if CUDART_VERSION >= 13000
namespace {

cudaMemLocation location_of(int device) {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  location.id = device;
  return location;
}

}  // namespace

void prefetch_to_device(const void* p, std::size_t bytes, int device, cudaStream_t stream) {
  gpu_check(cudaMemPrefetchAsync(p, bytes, location_of(device), 0, stream), "cudaMemPrefetchAsync");
}
void prefer_device(const void* p, std::size_t bytes, int device) {
  gpu_check(cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, location_of(device)),
            "cudaMemAdvise");
}
#else
void prefetch_to_device(const void* p, std::size_t bytes, int device, cudaStream_t stream) {
  gpu_check(cudaMemPrefetchAsync(p, bytes, device, stream), "cudaMemPrefetchAsync");
}
void prefer_device(const void* p, std::size_t bytes, int device) {
  gpu_check(cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, device), "cudaMemAdvise");
}
#endif

}  // namespace kvscope::cuda
