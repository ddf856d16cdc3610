// The CPU backend: matrices by oneDNN where it is row-stable, by our own kernel elsewhere; the rest
// is our own.
#pragma once

#include <memory>

#include "runner/backend/backend.h"
#include "runner/backend/cpu/onednn_matrix.h"
#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

// Not thread-safe: one caller at a time.
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int n_threads);  // 0 = all processors; throws UsageError above 1024

  std::string_view name() const override { return "cpu"; }
  std::string description() const override;
  int n_threads() const override { return pool_.size(); }

  std::unique_ptr<PackedMatrix> pack(const ReadRows& rows, int n_out, int n_in,
                                     DType dtype) override;
  std::unique_ptr<EmbeddingTable> pack_embedding(const ReadRows& rows, int n_vocab, int d_model,
                                                 DType dtype) override;

  void embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
             std::span<float> out) override;
  void matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind kind,
              std::span<float> y) override;
  void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, int rows,
                std::span<float> y) override;
  void swiglu(std::span<const float> gate_up, int rows, int d_ff, std::span<float> y) override;
  void add(std::span<const float> x, std::span<float> y) override;
  void layer_norm(std::span<const float> x, std::span<const float> weight,
                  std::span<const float> bias, float eps, int rows, std::span<float> y) override;
  void add_bias(std::span<const float> bias, int rows, std::span<float> y) override;
  void norm_heads(const AttentionShape& shape, std::span<const float> query_weight,
                  std::span<const float> key_weight, float eps, int rows,
                  std::span<float> qkv) override;
  void activate(Activation activation, std::span<const float> x, int rows, int d_ff,
                std::span<float> y) override;
  void copy_rows(std::span<const float> x, int width, std::span<const std::int32_t> rows,
                 std::span<float> out) override;
  void greedy(std::span<const float> logits, int rows, std::span<std::int32_t> ids) override;
  void pick_logits(std::span<const float> logits, int n_vocab, std::span<const LogitPlace> places,
                   std::span<float> out) override;
  void log_sum_exp(std::span<const float> logits, int rows, std::span<double> lse) override;
  void compare_logits(std::span<const LogitPair> pairs, std::span<LogitComparison> out) override;

  void attend_dense(const AttentionShape& shape, const RopeTable& rope,
                    const DenseJob& job) override;
  void attend_sparse(const AttentionShape& shape, const RopeTable& rope,
                     const SparseJob& job) override;
  void column_weights(const AttentionShape& shape, const RopeTable& rope,
                      const ColumnWeightsJob& job) override;
  void attention_rows(const AttentionShape& shape, const RopeTable& rope,
                      const AttentionRowsJob& job) override;
  void gather(const AttentionShape& shape, const RopeTable& rope,
              std::span<const GatherJob> jobs) override;
  void scan(const AttentionShape& shape, const RopeTable& rope,
            std::span<const ScanJob> jobs) override;

 private:
  bool uses_onednn(DType dtype) const;

  ThreadPool pool_;
  OneDnnSupport onednn_;
  std::shared_ptr<OneDnnContext> context_;
};

}  // namespace kvscope::cpu
