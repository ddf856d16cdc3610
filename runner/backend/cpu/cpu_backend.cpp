#include "runner/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cassert>

#include "runner/backend/cpu/attention.h"
#include "runner/backend/cpu/divergence.h"
#include "runner/backend/cpu/elementwise.h"
#include "runner/backend/cpu/embedding.h"
#include "runner/backend/cpu/portable_matrix.h"
#include "runner/base/exp_weights.h"

namespace kvscope {
namespace cpu {

CpuBackend::CpuBackend(int n_threads)
    : pool_(n_threads), onednn_(onednn_support()), context_(make_onednn_context(pool_.size())) {}

bool CpuBackend::uses_onednn(DType dtype) const {
  return (dtype == DType::kF32 && onednn_.f32) || (dtype == DType::kBF16 && onednn_.bf16);
}

std::string CpuBackend::description() const {
  std::string library;
  std::string own;
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
    std::string& list = uses_onednn(t) ? library : own;
    list += (list.empty() ? "" : ", ") + std::string(name_of(t));
  }
  std::string text = "cpu, " + std::to_string(pool_.size()) + " threads: matrices ";
  if (!library.empty()) text += "by " + onednn_.description + " (" + library + "), ";
  return text + "by own " + portable_target() + " kernel (" + own + ")";
}

std::unique_ptr<PackedMatrix> CpuBackend::pack(const ReadRows& rows, int n_out, int n_in,
                                               DType dtype) {
  if (uses_onednn(dtype)) return make_onednn_matrix(pool_, context_, rows, n_out, n_in, dtype);
  return make_portable_matrix(pool_, rows, n_out, n_in, dtype);
}

std::unique_ptr<EmbeddingTable> CpuBackend::pack_embedding(const ReadRows& rows, int n_vocab,
                                                           int d_model, DType dtype) {
  return std::make_unique<CpuEmbedding>(pool_, rows, n_vocab, d_model, dtype);
}

void CpuBackend::embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                       std::span<float> out) {
  const auto& own = static_cast<const CpuEmbedding&>(table);
  assert(out.size() >= ids.size() * own.d_model());
  own.lookup(pool_, ids, out.data());
}

void CpuBackend::matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind /*kind*/,
                        std::span<float> y) {
  assert(x.size() >= std::size_t(rows) * w.n_in() && y.size() >= std::size_t(rows) * w.n_out());
  static_cast<const CpuMatrix&>(w).multiply(pool_, x.data(), rows, y.data());
}

void CpuBackend::rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
                          int rows, std::span<float> y) {
  assert(x.size() >= rows * weight.size() && y.size() >= rows * weight.size());
  cpu::rms_norm(pool_, x.data(), weight, eps, rows, y.data());
}

void CpuBackend::swiglu(std::span<const float> gate_up, int rows, int d_ff, std::span<float> y) {
  assert(gate_up.size() >= 2 * std::size_t(rows) * d_ff && y.size() >= std::size_t(rows) * d_ff);
  cpu::swiglu(pool_, gate_up.data(), rows, d_ff, y.data());
}

void CpuBackend::add(std::span<const float> x, std::span<float> y) {
  assert(x.size() == y.size());
  cpu::add(pool_, x, y.data());
}

void CpuBackend::layer_norm(std::span<const float> x, std::span<const float> weight,
                            std::span<const float> bias, float eps, int rows, std::span<float> y) {
  assert(x.size() >= rows * weight.size() && y.size() >= rows * weight.size());
  cpu::layer_norm(pool_, x.data(), weight, bias, eps, rows, y.data());
}

void CpuBackend::add_bias(std::span<const float> bias, int rows, std::span<float> y) {
  assert(y.size() >= rows * bias.size());
  cpu::add_bias(pool_, bias, rows, y.data());
}

void CpuBackend::norm_heads(const AttentionShape& shape, std::span<const float> query_weight,
                            std::span<const float> key_weight, float eps, int rows,
                            std::span<float> qkv) {
  assert(qkv.size() >= rows * shape.row_floats());
  cpu::norm_heads(pool_, shape, query_weight, key_weight, eps, rows, qkv.data());
}

void CpuBackend::activate(Activation activation, std::span<const float> x, int rows, int d_ff,
                          std::span<float> y) {
  assert(y.size() >= std::size_t(rows) * d_ff);
  cpu::activate(pool_, activation, x.data(), rows, d_ff, y.data());
}

void CpuBackend::copy_rows(std::span<const float> x, int width, std::span<const std::int32_t> rows,
                           std::span<float> out) {
  assert(out.size() >= rows.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy_n(x.begin() + std::size_t(rows[i]) * width, width, out.begin() + i * width);
}

void CpuBackend::greedy(std::span<const float> logits, int rows, std::span<std::int32_t> ids) {
  assert(ids.size() >= std::size_t(rows));
  if (rows == 0) return;
  const std::size_t n_vocab = logits.size() / rows;
  pool_.parallel_for(rows, [&](std::size_t r, int) {
    const std::span<const float> row = logits.subspan(r * n_vocab, n_vocab);
    // Finding the value first is several times faster than max_element.
    const auto at = std::find(row.begin(), row.end(), largest(row));
    ids[r] = at == row.end() ? 0 : std::int32_t(at - row.begin());
  });
}

void CpuBackend::pick_logits(std::span<const float> logits, int n_vocab,
                             std::span<const LogitPlace> places, std::span<float> out) {
  assert(out.size() >= places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    out[i] = logits[std::size_t(places[i].row) * n_vocab + places[i].id];
}

void CpuBackend::log_sum_exp(std::span<const float> logits, int rows, std::span<double> lse) {
  assert(rows >= 0 && lse.size() >= std::size_t(rows));
  if (rows == 0) return;
  cpu::log_sum_exp(pool_, logits.data(), rows, logits.size() / rows, lse.data());
}

void CpuBackend::compare_logits(std::span<const LogitPair> pairs, std::span<LogitComparison> out) {
  assert(out.size() >= pairs.size());
  cpu::compare_logits(pool_, pairs, out.data());
}

void CpuBackend::attend_dense(const AttentionShape& shape, const RopeTable& rope,
                              const DenseJob& job) {
  cpu::attend_dense(pool_, shape, rope, job);
}

void CpuBackend::attend_sparse(const AttentionShape& shape, const RopeTable& rope,
                               const SparseJob& job) {
  cpu::attend_sparse(pool_, shape, rope, job);
}

void CpuBackend::column_weights(const AttentionShape& shape, const RopeTable& rope,
                                const ColumnWeightsJob& job) {
  cpu::column_weights(pool_, shape, rope, job);
}

void CpuBackend::attention_rows(const AttentionShape& shape, const RopeTable& rope,
                                const AttentionRowsJob& job) {
  cpu::attention_rows(pool_, shape, rope, job);
}

void CpuBackend::gather(const AttentionShape& shape, const RopeTable& rope,
                        std::span<const GatherJob> jobs) {
  cpu::gather(pool_, shape, rope, jobs);
}

void CpuBackend::scan(const AttentionShape& shape, const RopeTable& rope,
                      std::span<const ScanJob> jobs) {
  cpu::scan(pool_, shape, rope, jobs);
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int n_threads) {
  return std::make_unique<cpu::CpuBackend>(n_threads);
}

}  // namespace kvscope
