// Token embeddings, rows held in f32, bf16 or f16 and widened on reading.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

class CpuEmbedding final : public EmbeddingTable {
 public:
  CpuEmbedding(std::span<const float> table, int n_vocab, int d_model,
               DType dtype);  // table: [n_vocab][d_model]

  int d_model() const { return d_model_; }
  void lookup(ThreadPool& pool, std::span<const std::int32_t> ids,
              float* out) const;  // out: [ids][d_model]

 private:
  int n_vocab_;
  int d_model_;
  DType dtype_;
  std::vector<float> floats_;          // kF32
  std::vector<std::uint16_t> halves_;  // kBF16, kF16
};

}  // namespace kvscope::cpu
