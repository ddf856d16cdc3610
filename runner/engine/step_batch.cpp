#include "runner/engine/step_batch.h"

namespace kvscope {

std::span<const float> StepBatch::run(std::span<const StepRow> rows) {
  AttentionShape shape = context_.model.attention_shape(0);
  const auto d_model = std::size_t(context_.model.config.d_model);
  const auto d_attention = std::size_t(shape.n_heads) * shape.head_dim;
  const int n = int(rows.size());
  tokens_.clear();
  positions_.clear();
  for (const StepRow& row : rows) {
    tokens_.push_back(row.token);
    positions_.push_back(row.position);
  }
  const std::span<float> x = x_.floats(n * d_model);
  const std::span<float> qkv = qkv_.floats(n * shape.row_floats());
  const std::span<float> attention = attention_.floats(n * d_attention);
  steps_.resize(std::size_t(n) * shape.n_kv_heads);
  forward_.embed(tokens_, positions_, x);
  for (int layer = 0; layer < context_.model.config.n_layers; ++layer) {
    shape = context_.model.attention_shape(layer);
    forward_.project(layer, x, n, RowKind::kStep, qkv);
    jobs_.clear();
    for (int i = 0; i < n; ++i) {
      add_scan_jobs(jobs_, *rows[i].sequence, layer, shape, rows[i].how,
                    {qkv.data() + i * shape.row_floats(), attention.data() + i * d_attention, 1,
                     rows[i].position, rows[i].rows_before, rows[i].rows_after},
                    steps_.data() + std::size_t(i) * shape.n_kv_heads);
    }
    context_.backend.scan(shape, context_.rope_of(layer), jobs_);
    for (int i = 0; i < n; ++i) {
      if (rows[i].account == nullptr) continue;
      add_steps(*rows[i].account, rows[i].account_row, 1, shape, rows[i].how,
                steps_.data() + std::size_t(i) * shape.n_kv_heads);
    }
    forward_.finish(layer, attention, n, RowKind::kStep, x);
  }
  return x;
}

}  // namespace kvscope
