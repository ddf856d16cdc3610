// How much work a stage is, from its arguments alone, whatever the backend does. Bytes are those
// the stage names (weights, activations, keys and values): what a kernel reads again, or finds in a
// cache, is its own affair.
#pragma once

#include <cstdint>
#include <span>

#include "runner/backend/backend.h"

namespace kvscope {

struct StageWork {
  double flops = 0.0;  // a multiply-add is 2; in elementwise stages an exponential or a root is 1
  double bytes = 0.0;

  StageWork& operator+=(const StageWork& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

StageWork embed_work(std::size_t n_ids, std::size_t n_out_floats);
StageWork matmul_work(const PackedMatrix& w, int rows);
StageWork rms_norm_work(int rows, int d_model);
StageWork swiglu_work(int rows, int d_ff);
StageWork add_work(std::size_t n);
StageWork layer_norm_work(int rows, int d_model);
StageWork add_bias_work(int rows, int width);
StageWork activation_work(Activation activation, int rows, int d_ff);
StageWork copy_rows_work(std::size_t n);
StageWork greedy_work(std::size_t n_logits);
StageWork log_sum_exp_work(std::size_t n_logits, int rows);
StageWork compare_logits_work(std::span<const LogitPair> pairs);

// Attention is 4 · head_dim FLOPs a query head and visible slot: a dot product and a weighted sum.
//
// slots_before: of heads[0], before the call. Each key and value is read once.
StageWork dense_work(const AttentionShape& shape, const DenseJob& job, int slots_before);
// After the call, for job.steps. Each row reads all its visible keys and values. Without steps the
// rows' visible slots follow from the slots before and after; ghosts of probes are left out.
StageWork scan_work(const AttentionShape& shape, const ScanJob& job, int slots_before);
// Products of the indexed columns alone; each key and value is read once.
StageWork sparse_work(const AttentionShape& shape, const SparseJob& job);
// 2 · head_dim FLOPs a query head and visible slot of the rows that are wanted; keys only.
StageWork column_weights_work(const AttentionShape& shape, const ColumnWeightsJob& job);
StageWork attention_rows_work(const AttentionShape& shape, const AttentionRowsJob& job);
StageWork gather_work(const AttentionShape& shape, const GatherJob& job);  // a copy: no FLOPs

}  // namespace kvscope
