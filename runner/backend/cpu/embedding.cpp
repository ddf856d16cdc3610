#include "runner/backend/cpu/embedding.h"

#include <algorithm>
#include <cassert>

#include "runner/base/half.h"

namespace kvscope::cpu {

CpuEmbedding::CpuEmbedding(std::span<const float> table, int n_vocab, int d_model, DType dtype)
    : n_vocab_(n_vocab), d_model_(d_model), dtype_(dtype) {
  assert(table.size() == std::size_t(n_vocab) * d_model);
  if (dtype == DType::kF32) {
    floats_.assign(table.begin(), table.end());
    return;
  }
  halves_.resize(table.size());
  std::transform(table.begin(), table.end(), halves_.begin(),
                 dtype == DType::kBF16 ? bf16_bits : f16_bits);
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
          to[i] = floats_[first + i];
          break;
        case DType::kBF16:
          to[i] = from_bf16_bits(halves_[first + i]);
          break;
        case DType::kF16:
          to[i] = from_f16_bits(halves_[first + i]);
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
