// A Backend around another one that counts calls, time, FLOPs and bytes of each stage. Results are
// those of the other: every call goes through unchanged. Matrices and tables of the two are the
// same, so a model loaded on one runs on both.
#pragma once

#include <string_view>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/backend/stage_work.h"

namespace kvscope {

// "embed", "matmul", "elementwise" (rms_norm, swiglu, add,
// copy_rows), "attend_dense", "attend_sparse",
// "scan", "column_weights", "attention_rows", "gather", "log_sum_exp", "greedy", "compare_logits".
struct StageCounter {
  std::string_view stage;
  int n_out = 0;  // matmul: one counter a shape [n_out][n_in]; 0 elsewhere
  int n_in = 0;
  std::int64_t calls = 0;
  double seconds = 0.0;  // wall time
  StageWork work;
};

// Not thread-safe, like any Backend.
class MeteredBackend final : public Backend {
 public:
  explicit MeteredBackend(Backend& inner) : inner_(inner) {}  // must outlive this

  const std::vector<StageCounter>& counters() const { return counters_; }  // by first use
  void reset() { counters_.clear(); }

  std::string_view name() const override { return inner_.name(); }
  std::string description() const override { return inner_.description(); }
  int n_threads() const override { return inner_.n_threads(); }
  Memory* memory() const override { return inner_.memory(); }
  void sync() override { inner_.sync(); }
  void release_scratch() override { inner_.release_scratch(); }
  std::optional<DeviceMemory> device_memory() const override { return inner_.device_memory(); }

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
  // Runs and times `call`, adds what work() says after it (nothing: the call is not counted). A new
  // method of Backend is one of these.
  template <typename Call, typename Work>
  void meter(std::string_view stage, int n_out, int n_in, const Call& call, const Work& work);
  StageCounter& counter(std::string_view stage, int n_out, int n_in);

  Backend& inner_;
  std::vector<StageCounter> counters_;
  std::vector<int> slots_before_;  // [jobs] of a scan
};

}  // namespace kvscope
