#include "runner/backend/stage_work.h"

#include <algorithm>

namespace kvscope {
namespace {

constexpr double kFloat = sizeof(float);

// Σ over r in [0, n) of first + r + 1: causal rows after `first` slots.
double causal_slots(double first, double n) { return n * first + n * (n + 1) / 2; }

// Queries, keys and values that come in and the attention that goes out, for `n_kv_heads` of them.
double row_bytes(const AttentionShape& shape, int n_kv_heads) {
  return kFloat * n_kv_heads * shape.head_dim * (2.0 * shape.group() + 2.0);
}

}  // namespace

StageWork embed_work(std::size_t n_ids, std::size_t n_out_floats) {
  return {0.0, double(n_ids * sizeof(std::int32_t)) + kFloat * double(n_out_floats)};
}

StageWork matmul_work(const PackedMatrix& w, int rows) {
  const double n_out = w.n_out();
  const double n_in = w.n_in();
  return {2.0 * rows * n_out * n_in, double(w.bytes()) + kFloat * rows * (n_in + n_out)};
}

StageWork rms_norm_work(int rows, int d_model) {
  const double n = double(rows) * d_model;
  return {4.0 * n, kFloat * (2.0 * n + d_model)};  // square, add; scale, weight
}

StageWork swiglu_work(int rows, int d_ff) {
  const double n = double(rows) * d_ff;
  return {5.0 * n, kFloat * 3.0 * n};  // gate · up / (1 + exp(−gate))
}

StageWork add_work(std::size_t n) { return {double(n), kFloat * 3.0 * double(n)}; }

StageWork layer_norm_work(int rows, int d_model) {
  const double n = double(rows) * d_model;
  return {7.0 * n, kFloat * (2.0 * n + 2.0 * d_model)};  // mean; distance, square, add; scale …
}

StageWork add_bias_work(int rows, int width) {
  const double n = double(rows) * width;
  return {n, kFloat * (2.0 * n + width)};
}

StageWork activation_work(Activation activation, int rows, int d_ff) {
  const double n = double(rows) * d_ff;
  const double flops = activation == Activation::kRelu ? 1.0 : 8.0;  // an exponential counts one
  return {flops * n, kFloat * (is_gated(activation) ? 3.0 : 2.0) * n};
}

StageWork copy_rows_work(std::size_t n) { return {0.0, kFloat * 2.0 * double(n)}; }

StageWork greedy_work(std::size_t n_logits) {
  return {double(n_logits), kFloat * double(n_logits)};  // a comparison each
}

StageWork log_sum_exp_work(std::size_t n_logits, int rows) {
  return {3.0 * double(n_logits),  // shift, exponential, add
          kFloat * double(n_logits) + double(sizeof(double)) * rows};
}

// A logit of the full row: its weight (2), the weighted difference (3), two sums (2).
StageWork compare_logits_work(std::span<const LogitPair> pairs) {
  StageWork work;
  for (const LogitPair& pair : pairs) {
    const double n = double(pair.full.size());
    work += {7.0 * n, 2.0 * n * sizeof(float)};
  }
  return work;
}

StageWork dense_work(const AttentionShape& shape, const DenseJob& job, int slots_before) {
  if (job.n_rows == 0) return {};
  const double visible = causal_slots(slots_before, job.n_rows);
  const double token_bytes = double(job.heads[0].pool().shape().token_bytes());
  return {4.0 * shape.head_dim * shape.n_heads * visible,
          token_bytes * shape.n_kv_heads * (slots_before + job.n_rows) +
              row_bytes(shape, shape.n_kv_heads) * job.n_rows};
}

StageWork scan_work(const AttentionShape& shape, const ScanJob& job, int slots_before) {
  if (job.n_rows == 0) return {};
  double visible = 0.0;  // over rows and heads
  if (job.steps != nullptr) {
    const std::span<const StepSlots> steps(job.steps, std::size_t(job.n_kv_heads) * job.n_rows);
    for (const StepSlots& step : steps) visible += step.visible_slots;
  } else {
    // A rule lets at most `chunk` rows stand on top of what it keeps.
    const double most = std::max(slots_before, job.heads[0].n_slots()) + job.chunk;
    const double growing = std::clamp(most - slots_before, 0.0, double(job.n_rows));
    visible =
        job.n_kv_heads * (causal_slots(slots_before, growing) + (job.n_rows - growing) * most);
  }
  const double token_bytes = double(job.heads[0].pool().shape().token_bytes());
  return {4.0 * shape.head_dim * shape.group() * visible,
          token_bytes * visible + row_bytes(shape, job.n_kv_heads) * job.n_rows};
}

StageWork sparse_work(const AttentionShape& shape, const SparseJob& job) {
  double entries = 0.0;
  for (const auto& index : job.index) entries += density(*index) * causal_slots(0, job.n_rows);
  const double token_bytes = double(job.heads[0].pool().shape().token_bytes());
  return {4.0 * shape.head_dim * entries,
          token_bytes * shape.n_kv_heads * job.n_rows +
              2.0 * kFloat * job.n_rows * shape.n_heads * shape.head_dim};
}

StageWork column_weights_work(const AttentionShape& shape, const ColumnWeightsJob& job) {
  if (job.need.rows == PromptNeed::Rows::kNone || job.n_rows == 0) return {};
  const int rows = job.need.rows == PromptNeed::Rows::kAll
                       ? job.n_rows
                       : std::min(job.need.last_rows, job.n_rows);
  const double visible = causal_slots(job.n_rows - rows, rows);
  const double key_bytes = double(job.heads[0].pool().shape().key_bytes()) / kPageSlots;
  return {2.0 * shape.head_dim * shape.n_heads * visible,
          key_bytes * shape.n_kv_heads * job.n_rows +
              kFloat * shape.n_heads * (rows * (shape.head_dim + 1.0) + job.n_rows)};
}

StageWork attention_rows_work(const AttentionShape& shape, const AttentionRowsJob& job) {
  const double visible = causal_slots(job.first_row, job.n_rows);
  const double key_bytes = double(job.heads[0].pool().shape().key_bytes()) / kPageSlots;
  return {2.0 * shape.head_dim * shape.n_heads * visible,
          key_bytes * shape.n_kv_heads * (job.first_row + job.n_rows) +
              kFloat * shape.n_heads * (job.n_rows * (shape.head_dim + 1.0) + visible)};
}

StageWork gather_work(const AttentionShape& shape, const GatherJob& job) {
  const double kept = double(job.keep.size());
  StageWork work;
  work.bytes =
      kept * (kFloat * 2.0 * shape.head_dim + double(job.head->pool().shape().token_bytes()));
  if (job.ghosts != nullptr) {
    work.bytes += (job.n_rows - kept) *
                  (kFloat * shape.head_dim + double(job.ghosts->pool().shape().token_bytes()));
  }
  return work;
}

}  // namespace kvscope
