// A Backend that passes every call on: tests override what they want to disturb.
#pragma once

#include <memory>
#include <utility>

#include "runner/backend/backend.h"

namespace kvscope::testing {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  int n_threads() const override { return inner_->n_threads(); }
  Memory* memory() const override { return inner_->memory(); }
  void sync() override { inner_->sync(); }
  void release_scratch() override { inner_->release_scratch(); }
  std::optional<DeviceMemory> device_memory() const override { return inner_->device_memory(); }
  std::unique_ptr<PackedMatrix> pack(const ReadRows& rows, int n_out, int n_in,
                                     DType dtype) override {
    return inner_->pack(rows, n_out, n_in, dtype);
  }
  std::unique_ptr<EmbeddingTable> pack_embedding(const ReadRows& rows, int n_vocab, int d_model,
                                                 DType dtype) override {
    return inner_->pack_embedding(rows, n_vocab, d_model, dtype);
  }
  void embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
             std::span<float> out) override {
    inner_->embed(table, ids, out);
  }
  void matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind kind,
              std::span<float> y) override {
    inner_->matmul(w, x, rows, kind, y);
  }
  void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, int rows,
                std::span<float> y) override {
    inner_->rms_norm(x, weight, eps, rows, y);
  }
  void swiglu(std::span<const float> gate_up, int rows, int d_ff, std::span<float> y) override {
    inner_->swiglu(gate_up, rows, d_ff, y);
  }
  void add(std::span<const float> x, std::span<float> y) override { inner_->add(x, y); }
  void layer_norm(std::span<const float> x, std::span<const float> weight,
                  std::span<const float> bias, float eps, int rows, std::span<float> y) override {
    inner_->layer_norm(x, weight, bias, eps, rows, y);
  }
  void add_bias(std::span<const float> bias, int rows, std::span<float> y) override {
    inner_->add_bias(bias, rows, y);
  }
  void norm_heads(const AttentionShape& shape, std::span<const float> query_weight,
                  std::span<const float> key_weight, float eps, int rows,
                  std::span<float> qkv) override {
    inner_->norm_heads(shape, query_weight, key_weight, eps, rows, qkv);
  }
  void activate(Activation activation, std::span<const float> x, int rows, int d_ff,
                std::span<float> y) override {
    inner_->activate(activation, x, rows, d_ff, y);
  }
  void copy_rows(std::span<const float> x, int width, std::span<const std::int32_t> rows,
                 std::span<float> out) override {
    inner_->copy_rows(x, width, rows, out);
  }
  void greedy(std::span<const float> logits, int rows, std::span<std::int32_t> ids) override {
    inner_->greedy(logits, rows, ids);
  }
  void pick_logits(std::span<const float> logits, int n_vocab, std::span<const LogitPlace> places,
                   std::span<float> out) override {
    inner_->pick_logits(logits, n_vocab, places, out);
  }
  void log_sum_exp(std::span<const float> logits, int rows, std::span<double> lse) override {
    inner_->log_sum_exp(logits, rows, lse);
  }
  void compare_logits(std::span<const LogitPair> pairs, std::span<LogitComparison> out) override {
    inner_->compare_logits(pairs, out);
  }
  void attend_dense(const AttentionShape& shape, const RopeTable& rope,
                    const DenseJob& job) override {
    inner_->attend_dense(shape, rope, job);
  }
  void attend_sparse(const AttentionShape& shape, const RopeTable& rope,
                     const SparseJob& job) override {
    inner_->attend_sparse(shape, rope, job);
  }
  void column_weights(const AttentionShape& shape, const RopeTable& rope,
                      const ColumnWeightsJob& job) override {
    inner_->column_weights(shape, rope, job);
  }
  void attention_rows(const AttentionShape& shape, const RopeTable& rope,
                      const AttentionRowsJob& job) override {
    inner_->attention_rows(shape, rope, job);
  }
  void gather(const AttentionShape& shape, const RopeTable& rope,
              std::span<const GatherJob> jobs) override {
    inner_->gather(shape, rope, jobs);
  }
  void scan(const AttentionShape& shape, const RopeTable& rope,
            std::span<const ScanJob> jobs) override {
    inner_->scan(shape, rope, jobs);
  }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace kvscope::testing
