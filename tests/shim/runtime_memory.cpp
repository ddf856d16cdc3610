// The runtime's calls for memory: allocation, copies, fills.
#include <cstring>
#include <vector>

#include "tests/shim/allocations.h"
#include "tests/shim/gpu_runtime.h"
#include "tests/shim/machine.h"

namespace kvscope::shim {
namespace {

cudaError_t allocate(void** p, std::size_t bytes, MemoryKind kind) {
  if (p == nullptr) return note(cudaErrorInvalidValue);
  if (const cudaError_t state = device_state(); state != cudaSuccess) return note(state);
  *p = allocations().allocate(bytes, kind, machine().devices[0].memory_bytes);
  return *p != nullptr ? cudaSuccess : note(cudaErrorMemoryAllocation);
}

cudaError_t free_block(void* p, bool pinned) {
  if (p == nullptr) return cudaSuccess;
  finish_all();
  return allocations().free(p, pinned) ? device_state() : note(cudaErrorInvalidValue);
}

cudaError_t copy_allowed(const void* to, const void* from, std::size_t bytes) {
  if (const cudaError_t state = device_state(); state != cudaSuccess) return state;
  const Allocations& known = allocations();
  if (!known.holds_or_unknown(to, bytes) || !known.holds_or_unknown(from, bytes))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

}  // namespace

std::size_t allocated_bytes() { return allocations().device_bytes(); }

}  // namespace kvscope::shim

namespace shim = kvscope::shim;

extern "C" {

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return shim::allocate(p, bytes, shim::MemoryKind::kDevice);
}

cudaError_t cudaMallocManaged(void** p, size_t bytes, unsigned) {
  // The runtime refuses empty blocks of this kind alone.
  if (bytes == 0) return shim::note(cudaErrorInvalidValue);
  return shim::allocate(p, bytes, shim::MemoryKind::kManaged);
}

cudaError_t cudaMallocHost(void** p, size_t bytes) {
  return shim::allocate(p, bytes, shim::MemoryKind::kPinned);
}

cudaError_t cudaFree(void* p) { return shim::free_block(p, false); }
cudaError_t cudaFreeHost(void* p) { return shim::free_block(p, true); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t state = shim::device_state(); state != cudaSuccess)
    return shim::note(state);
  *total = shim::machine().devices[0].memory_bytes;
  const std::size_t used = shim::allocated_bytes();
  *free = used < *total ? *total - used : 0;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (const cudaError_t error = shim::copy_allowed(to, from, bytes); error != cudaSuccess)
    return shim::note(error);
  shim::finish(nullptr);
  if (bytes > 0) std::memmove(to, from, bytes);
  return shim::device_state();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t error = shim::copy_allowed(to, from, bytes); error != cudaSuccess)
    return shim::note(error);
  if (bytes == 0) return cudaSuccess;
  if (!shim::allocations().knows(from)) {  // pageable memory is read before the call returns
    const auto* first = static_cast<const char*>(from);
    shim::enqueue(stream, [to, staged = std::vector<char>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  } else {
    shim::enqueue(stream, [=] { std::memmove(to, from, bytes); });
  }
  if (!shim::allocations().knows(to)) shim::finish(stream);  // and written before it
  return shim::device_state();
}

cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return cudaMemsetAsync(p, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = shim::copy_allowed(p, p, bytes); error != cudaSuccess)
    return shim::note(error);
  if (bytes > 0) shim::enqueue(stream, [=] { std::memset(p, value, bytes); });
  return shim::device_state();
}

}  // extern "C"

namespace kvscope::cuda {

void prefetch_to_device(const void* p, std::size_t bytes, int, cudaStream_t) {
  gpu_check(shim::copy_allowed(p, p, bytes), "cudaMemPrefetchAsync");
}

void prefer_device(const void* p, std::size_t bytes, int) {
  gpu_check(shim::copy_allowed(p, p, bytes), "cudaMemAdvise");
}

}  // namespace kvscope::cuda
