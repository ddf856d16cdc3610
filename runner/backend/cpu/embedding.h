// Token embeddings, rows held in f32, bf16 or f16 and widened on reading.
#pragma once

#include <cstdint>
#include <span>

#include "runner/backend/backend.h"
#include "runner/base/aligned_buffer.h"
#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

class CpuEmbedding final : public EmbeddingTable {
 public:
  CpuEmbedding(ThreadPool& pool, const ReadRows& rows, int n_vocab, int d_model, DType dtype);

  int d_model() const { return d_model_; }
  void lookup(ThreadPool& pool, std::span<const std::int32_t> ids,
              float* out) const;  // out: [ids][d_model]

 private:
  int n_vocab_;
  int d_model_;
  DType dtype_;
  AlignedBuffer table_;  // [n_vocab][d_model]
};

}  // namespace kvscope::cpu
