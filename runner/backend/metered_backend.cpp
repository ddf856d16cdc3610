#include "runner/backend/metered_backend.h"

#include <algorithm>
#include <chrono>

namespace kvscope {

StageCounter& MeteredBackend::counter(std::string_view stage, int n_out, int n_in) {
  const auto found = std::find_if(counters_.begin(), counters_.end(), [&](const StageCounter& c) {
    return c.stage == stage && c.n_out == n_out && c.n_in == n_in;
  });
  if (found != counters_.end()) return *found;
  StageCounter fresh;
  fresh.stage = stage;
  fresh.n_out = n_out;
  fresh.n_in = n_in;
  return counters_.emplace_back(fresh);
}

template <typename Call, typename Work>
void MeteredBackend::meter(std::string_view stage, int n_out, int n_in, const Call& call,
                           const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  call();
  inner_.sync();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const StageWork done = work();
  if (done.bytes == 0) return;  // an empty call is no stage
  StageCounter& c = counter(stage, n_out, n_in);
  ++c.calls;
  c.seconds += time.count();
  c.work += done;
}

std::unique_ptr<PackedMatrix> MeteredBackend::pack(const ReadRows& rows, int n_out, int n_in,
                                                   DType dtype) {
  return inner_.pack(rows, n_out, n_in, dtype);
}

std::unique_ptr<EmbeddingTable> MeteredBackend::pack_embedding(const ReadRows& rows, int n_vocab,
                                                               int d_model, DType dtype) {
  return inner_.pack_embedding(rows, n_vocab, d_model, dtype);
}

void MeteredBackend::embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                           std::span<float> out) {
  meter(
      "embed", 0, 0, [&] { inner_.embed(table, ids, out); },
      [&] { return embed_work(ids.size(), out.size()); });
}

void MeteredBackend::matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind kind,
                            std::span<float> y) {
  meter(
      "matmul", w.n_out(), w.n_in(), [&] { inner_.matmul(w, x, rows, kind, y); },
      [&] { return matmul_work(w, rows); });
}

void MeteredBackend::rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
                              int rows, std::span<float> y) {
  meter(
      "elementwise", 0, 0, [&] { inner_.rms_norm(x, weight, eps, rows, y); },
      [&] { return rms_norm_work(rows, int(weight.size())); });
}

void MeteredBackend::swiglu(std::span<const float> gate_up, int rows, int d_ff,
                            std::span<float> y) {
  meter(
      "elementwise", 0, 0, [&] { inner_.swiglu(gate_up, rows, d_ff, y); },
      [&] { return swiglu_work(rows, d_ff); });
}

void MeteredBackend::add(std::span<const float> x, std::span<float> y) {
  meter(
      "elementwise", 0, 0, [&] { inner_.add(x, y); }, [&] { return add_work(y.size()); });
}

void MeteredBackend::layer_norm(std::span<const float> x, std::span<const float> weight,
                                std::span<const float> bias, float eps, int rows,
                                std::span<float> y) {
  meter(
      "elementwise", 0, 0, [&] { inner_.layer_norm(x, weight, bias, eps, rows, y); },
      [&] { return layer_norm_work(rows, int(weight.size())); });
}

void MeteredBackend::add_bias(std::span<const float> bias, int rows, std::span<float> y) {
  meter(
      "elementwise", 0, 0, [&] { inner_.add_bias(bias, rows, y); },
      [&] { return add_bias_work(rows, int(bias.size())); });
}

void MeteredBackend::norm_heads(const AttentionShape& shape, std::span<const float> query_weight,
                                std::span<const float> key_weight, float eps, int rows,
                                std::span<float> qkv) {
  meter(
      "elementwise", 0, 0,
      [&] { inner_.norm_heads(shape, query_weight, key_weight, eps, rows, qkv); },
      [&] { return rms_norm_work(rows * (shape.n_heads + shape.n_kv_heads), shape.head_dim); });
}

void MeteredBackend::activate(Activation activation, std::span<const float> x, int rows, int d_ff,
                              std::span<float> y) {
  meter(
      "elementwise", 0, 0, [&] { inner_.activate(activation, x, rows, d_ff, y); },
      [&] { return activation_work(activation, rows, d_ff); });
}

void MeteredBackend::copy_rows(std::span<const float> x, int width,
                               std::span<const std::int32_t> rows, std::span<float> out) {
  meter(
      "elementwise", 0, 0, [&] { inner_.copy_rows(x, width, rows, out); },
      [&] { return copy_rows_work(rows.size() * width); });
}

void MeteredBackend::greedy(std::span<const float> logits, int rows, std::span<std::int32_t> ids) {
  meter(
      "greedy", 0, 0, [&] { inner_.greedy(logits, rows, ids); },
      [&] { return greedy_work(logits.size()); });
}

void MeteredBackend::pick_logits(std::span<const float> logits, int n_vocab,
                                 std::span<const LogitPlace> places, std::span<float> out) {
  inner_.pick_logits(logits, n_vocab, places, out);  // a few numbers: no stage
}

void MeteredBackend::log_sum_exp(std::span<const float> logits, int rows, std::span<double> lse) {
  meter(
      "log_sum_exp", 0, 0, [&] { inner_.log_sum_exp(logits, rows, lse); },
      [&] { return log_sum_exp_work(logits.size(), rows); });
}

void MeteredBackend::compare_logits(std::span<const LogitPair> pairs,
                                    std::span<LogitComparison> out) {
  meter(
      "compare_logits", 0, 0, [&] { inner_.compare_logits(pairs, out); },
      [&] { return compare_logits_work(pairs); });
}

void MeteredBackend::attend_dense(const AttentionShape& shape, const RopeTable& rope,
                                  const DenseJob& job) {
  const int slots_before = job.n_rows > 0 ? job.heads[0].n_slots() : 0;
  meter(
      "attend_dense", 0, 0, [&] { inner_.attend_dense(shape, rope, job); },
      [&] { return dense_work(shape, job, slots_before); });
}

void MeteredBackend::attend_sparse(const AttentionShape& shape, const RopeTable& rope,
                                   const SparseJob& job) {
  meter(
      "attend_sparse", 0, 0, [&] { inner_.attend_sparse(shape, rope, job); },
      [&] { return sparse_work(shape, job); });
}

void MeteredBackend::column_weights(const AttentionShape& shape, const RopeTable& rope,
                                    const ColumnWeightsJob& job) {
  meter(
      "column_weights", 0, 0, [&] { inner_.column_weights(shape, rope, job); },
      [&] { return column_weights_work(shape, job); });
}

void MeteredBackend::attention_rows(const AttentionShape& shape, const RopeTable& rope,
                                    const AttentionRowsJob& job) {
  meter(
      "attention_rows", 0, 0, [&] { inner_.attention_rows(shape, rope, job); },
      [&] { return attention_rows_work(shape, job); });
}

void MeteredBackend::gather(const AttentionShape& shape, const RopeTable& rope,
                            std::span<const GatherJob> jobs) {
  meter(
      "gather", 0, 0, [&] { inner_.gather(shape, rope, jobs); },
      [&] {
        StageWork work;
        for (const GatherJob& job : jobs) work += gather_work(shape, job);
        return work;
      });
}

void MeteredBackend::scan(const AttentionShape& shape, const RopeTable& rope,
                          std::span<const ScanJob> jobs) {
  slots_before_.clear();
  for (const ScanJob& job : jobs) slots_before_.push_back(job.heads[0].n_slots());
  meter(
      "scan", 0, 0, [&] { inner_.scan(shape, rope, jobs); },
      [&] {
        StageWork work;
        for (std::size_t i = 0; i < jobs.size(); ++i) {
          work += scan_work(shape, jobs[i], slots_before_[i]);
        }
        return work;
      });
}

}  // namespace kvscope
