// The vocabulary of kernels and of their callers, compiled by nvcc. tests/shim/gpu_runtime.h has
// the same for the host compiler; which one is meant is decided by the include path.
//
//   KSHARED(T, name, N);  T name[N] in shared memory, contents undefined
//
//   KSMEM(name);          unsigned char name[], 16-byte aligned, of the size that launch() was
//   given
//
//   mma_m16n8k16(c, a, b)  a product of matrices on tensor cores
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "runner/backend/cuda/gpu_check.h"

#define KSHARED(T, name, N) __shared__ T name[N]
#define KSMEM(name) extern __shared__ __align__(16) unsigned char name[]

namespace kvscope::cuda {

// In memory_hints.cpp: the runtime's own differ between toolkits.
void prefetch_to_device(const void* p, std::size_t bytes, int device, cudaStream_t stream);
void prefer_device(const void* p, std::size_t bytes, int device);

#ifdef __CUDACC__  // the host compiler sees this header too, where there is nothing to launch
// c += a · b of a whole warp: bf16 operands, float32 sums, a [16 rows][16 k], b [16 k][8 columns].
// Lane l has (row r = l / 4, quad q = l % 4)
//
//   a[0]  row r, k = 2q and 2q + 1; a[1]: row r + 8; a[2]: k + 8; a[3]: both
//
//   b[0]  column r, k = 2q and 2q + 1; b[1]: k + 8
//
//   c[0]  row r, column 2q; c[1]: column 2q + 1; c[2], c[3]: row r + 8
//
// the element of the lower k in the lower half of a word.
__device__ inline void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Throws CudaError where the launch is not accepted; what goes wrong in the kernel shows at the
// next wait. shared_bytes: of KSMEM.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  constexpr std::size_t kAlwaysAllowed = std::size_t{48} << 10;
  if (shared_bytes > kAlwaysAllowed) {
    gpu_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)),
              "cudaFuncSetAttribute");
  }
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  gpu_check(cudaGetLastError(), "kernel launch");
}
#endif

}  // namespace kvscope::cuda
