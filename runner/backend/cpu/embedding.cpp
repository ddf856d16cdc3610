#include "runner/backend/cpu/embedding.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "runner/base/half.h"

namespace kvscope::cpu {

CpuEmbedding::CpuEmbedding(ThreadPool& pool, const ReadRows& rows, int n_vocab, int d_model,
                           DType dtype)
    : n_vocab_(n_vocab),
      d_model_(d_model),
      dtype_(dtype),
      table_(std::size_t(n_vocab) * d_model * element_bytes(dtype),
             AlignedBuffer::Contents::kUndefined) {
  constexpr int kRowsPerTask = 256;
  pool.parallel_for((n_vocab + kRowsPerTask - 1) / kRowsPerTask, [&](std::size_t task, int) {
    const int first = int(task) * kRowsPerTask;
    const int n = std::min(kRowsPerTask, n_vocab - first);
    const std::size_t offset = std::size_t(first) * d_model;
    if (dtype == DType::kF32) return rows(first, n, table_.as<float>() + offset);
    std::vector<float> wide(std::size_t(n) * d_model);
    rows(first, n, wide.data());
    std::transform(wide.begin(), wide.end(), table_.as<std::uint16_t>() + offset,
                   dtype == DType::kBF16 ? bf16_bits : f16_bits);
  });
}

void CpuEmbedding::lookup(ThreadPool& pool, std::span<const std::int32_t> ids, float* out) const {
  constexpr std::size_t kRowsPerTask = 32;
  const auto copy_row = [&](std::size_t row) {
    assert(ids[row] >= 0 && ids[row] < n_vocab_);
    const std::size_t first = std::size_t(ids[row]) * d_model_;
    float* to = out + row * d_model_;
    for (int i = 0; i < d_model_; ++i) {
      switch (dtype_) {
        case DType::kF32:
          to[i] = table_.as<float>()[first + i];
          break;
        case DType::kBF16:
          to[i] = from_bf16_bits(table_.as<std::uint16_t>()[first + i]);
          break;
        case DType::kF16:
          to[i] = from_f16_bits(table_.as<std::uint16_t>()[first + i]);
          break;
      }
    }
  };
  const auto copy_rows = [&](std::size_t task, int) {
    const std::size_t end = std::min(ids.size(), (task + 1) * kRowsPerTask);
    for (std::size_t row = task * kRowsPerTask; row < end; ++row) copy_row(row);
  };
  pool.parallel_for((ids.size() + kRowsPerTask - 1) / kRowsPerTask, copy_rows);
}

}  // namespace kvscope::cpu
