// The vocabulary of kernels and of their callers, compiled by the host compiler: kernels run on the
// CPU (engine.h). Stands for runner/backend/cuda/toolkit/gpu_runtime.h, whose comments hold here;
// which one is meant is decided by the include path. CUDA's headers are the toolkit's, or those of
// stand_in/ where there is none.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <cstddef>
#include <tuple>

#undef __shared__
#undef __launch_bounds__
#undef __forceinline__
#define __launch_bounds__(...)
#define __forceinline__ inline
#ifndef __grid_constant__
#define __grid_constant__
#endif

#include "runner/backend/cuda/gpu_check.h"
#include "tests/shim/atomics.h"
#include "tests/shim/engine.h"
#include "tests/shim/intrinsics.h"
#include "tests/shim/machine.h"
#include "tests/shim/streams.h"
#include "tests/shim/warp_operations.h"

// Fresh and filled anew for each block, with a red zone around it. There is no __shared__: it would
// be neither.
#define KSHARED(T, name, N)    \
  static char name##_key;      \
  T(&name)                     \
  [N] = *static_cast<T(*)[N]>( \
      ::kvscope::shim::shared_array(&name##_key, sizeof(T) * std::size_t(N)))
#define KSMEM(name) unsigned char* const name = ::kvscope::shim::dynamic_shared()

template <class T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(p), bytes);
}
template <class T>
cudaError_t cudaMallocManaged(T** p, std::size_t bytes, unsigned flags = cudaMemAttachGlobal) {
  return cudaMallocManaged(reinterpret_cast<void**>(p), bytes, flags);
}
template <class T>
cudaError_t cudaMallocHost(T** p, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(p), bytes);
}

namespace kvscope::cuda {

// Defined by the shim, because the runtime's own differ between toolkits.
void prefetch_to_device(const void* p, std::size_t bytes, int device, cudaStream_t stream);
void prefer_device(const void* p, std::size_t bytes, int device);

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  gpu_check(shim::launch_result(), "kernel launch");
  shim::check_launch(grid, block, shared_bytes);
  // By-value parameters: one copy a thread, as on a device.
  std::tuple<Parameters...> bound(static_cast<Parameters>(arguments)...);
  shim::enqueue(stream, [=] {
    auto thread = [&] { std::apply(kernel, bound); };
    shim::run(
        grid, block, shared_bytes, [](void* p) { (*static_cast<decltype(thread)*>(p))(); },
        &thread);
  });
}

}  // namespace kvscope::cuda
