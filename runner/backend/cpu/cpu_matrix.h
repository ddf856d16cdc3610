// A weight matrix of the CPU backend that can multiply. Two implementations keep the promise that a
// row's bits depend on that row alone: oneDNN's packed kernels on AVX-512 (OneDnnMatrix), a kernel
// of our own elsewhere (PortableMatrix).
#pragma once

#include <algorithm>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

class CpuMatrix : public PackedMatrix {
 public:
  // y[r][o] = Σ_i w[o][i] · x[r][i]; x: [rows][n_in], y: [rows][n_out], both row-major without
  // gaps. With bf16 weights x is rounded to bf16 first, whatever the implementation; sums are
  // float32. Not for two callers at once.
  virtual void multiply(ThreadPool& pool, const float* x, int rows, float* y) const = 0;
};

// Half-open range of output columns or rows.
struct Range {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// [0, n) in blocks of `block`; the last may be smaller.
inline std::vector<Range> cut(int n, int block) {
  std::vector<Range> blocks;
  for (int begin = 0; begin < n; begin += block)
    blocks.push_back({begin, std::min(n, begin + block)});
  return blocks;
}

}  // namespace kvscope::cpu
