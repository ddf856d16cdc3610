// Kernels for ThreadSanitizer: two whose races it must report, one without any.
#include <string_view>

#include "gpu_runtime.h"

namespace kvscope::cuda {
namespace {

constexpr int kThreads = 64;
constexpr int kBlocks = 3;

// Thread t reads what thread 63 - t, of the other warp, writes.
__global__ void within_a_block(int* out) {
  KSHARED(int, values, kThreads);
  const int t = int(threadIdx.x);
  values[t] = t;
  out[blockIdx.x * kThreads + t] = values[kThreads - 1 - t];
}

__global__ void between_blocks(int* out) { out[threadIdx.x] = int(blockIdx.x); }

// Order by each of the means that there are.
__global__ void ordered(int* out) {
  KSHARED(int, values, kThreads);
  const int t = int(threadIdx.x);
  values[t] = t;
  __syncthreads();
  const int other = values[kThreads - 1 - t];
  __syncthreads();
  values[t] = other;
  __syncwarp();
  const int neighbour = values[t ^ 1];
  out[blockIdx.x * kThreads + t] = __shfl_xor_sync(0xFFFFFFFFU, neighbour, 1);
  atomicAdd(out + kBlocks * kThreads, 1);
}

int run(std::string_view name) {
  void (*kernel)(int*) = &ordered;
  if (name == "within_a_block") kernel = &within_a_block;
  if (name == "between_blocks") kernel = &between_blocks;
  int* out = nullptr;
  gpu_check(cudaMalloc(&out, (kBlocks * kThreads + 1) * sizeof(int)), "cudaMalloc");
  for (int i = 0; i < 2; ++i) launch(kernel, dim3(kBlocks), dim3(kThreads), 0, nullptr, out);
  return cudaFree(out) == cudaSuccess ? 0 : 1;
}

}  // namespace
}  // namespace kvscope::cuda

int main(int argc, char** argv) { return argc == 2 ? kvscope::cuda::run(argv[1]) : 2; }
