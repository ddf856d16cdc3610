// Matrices in oneDNN's packed layout, multiplied by its matmul primitives. oneDNN runs
// single-threaded inside our tasks: fixed column slices x fixed row blocks, so the number of
// threads cannot change a bit. Its AVX-512 kernel ("brg") gives a row the same bits for every
// number of rows and every row position (performance.md 2.6; tests/runner/backend/
// matmul_test.cpp); its AVX2 and SSE4.1 kernels do not, so they are never used.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runner/backend/cpu/cpu_matrix.h"

namespace kvscope::cpu {

class OneDnnContext;  // primitives by shape, shared by all matrices of a backend, and scratch by
                      // worker

// What oneDNN would use on this machine, DNNL_MAX_CPU_ISA included.
struct OneDnnSupport {
  bool f32 = false;         // row-stable float32 kernel
  bool bf16 = false;        // row-stable bfloat16 kernel
  std::string description;  // "oneDNN 2.6.3 AVX-512 bf16"
};
OneDnnSupport onednn_support();

std::shared_ptr<OneDnnContext> make_onednn_context(int n_workers);

// dtype kF32 or kBF16, where onednn_support() has it. The pool may have as many threads as the
// context workers.
std::unique_ptr<CpuMatrix> make_onednn_matrix(ThreadPool& pool,
                                              std::shared_ptr<OneDnnContext> context,
                                              const ReadRows& rows, int n_out, int n_in,
                                              DType dtype);

}  // namespace kvscope::cpu
