// The CPU with the rounding of another machine: every stage's results are moved by some 1e-6 of
// their size, as another order of additions moves them.
#pragma once

#include <memory>

#include "runner/base/splitmix.h"
#include "tests/runner/backend/forwarding_backend.h"

namespace kvscope::testing {

class PerturbedBackend final : public ForwardingBackend {
 public:
  PerturbedBackend(double relative, int n_threads)
      : ForwardingBackend(make_cpu_backend(n_threads)), relative_(float(relative)) {}

  std::string_view name() const override { return "perturbed"; }
  void matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind kind,
              std::span<float> y) override {
    ForwardingBackend::matmul(w, x, rows, kind, y);
    move(y.data(), std::size_t(rows) * w.n_out());
  }
  void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, int rows,
                std::span<float> y) override {
    ForwardingBackend::rms_norm(x, weight, eps, rows, y);
    move(y.data(), std::size_t(rows) * weight.size());
  }
  void attend_dense(const AttentionShape& shape, const RopeTable& rope,
                    const DenseJob& job) override {
    ForwardingBackend::attend_dense(shape, rope, job);
    const std::size_t row = std::size_t(shape.n_heads) * shape.head_dim;
    move(job.out + std::size_t(job.n_known) * row, std::size_t(job.n_rows - job.n_known) * row);
  }
  void column_weights(const AttentionShape& shape, const RopeTable& rope,
                      const ColumnWeightsJob& job) override {
    ForwardingBackend::column_weights(shape, rope, job);
    move(job.out, std::size_t(shape.n_heads) * job.n_rows);
  }
  void scan(const AttentionShape& shape, const RopeTable& rope,
            std::span<const ScanJob> jobs) override {
    ForwardingBackend::scan(shape, rope, jobs);
    for (const ScanJob& job : jobs) {
      const std::size_t width = std::size_t(job.n_kv_heads) * shape.group() * shape.head_dim;
      for (int r = 0; r < job.n_rows; ++r) {
        move(job.out + r * job.out_stride +
                 std::size_t(job.first_kv_head) * shape.group() * shape.head_dim,
             width);
      }
    }
  }

 private:
  void move(float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const float u = float(smix(count_++) >> 40) * 0x1p-23F - 1.0F;
      values[i] += values[i] * relative_ * u;
    }
  }

  float relative_;
  std::uint64_t count_ = 0;
};

}  // namespace kvscope::testing
