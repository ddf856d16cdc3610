// Prompt rows that attend to some columns only (policies.md 5, "minference"), one layer of one arm.
#pragma once

#include <vector>

#include "runner/backend/backend.h"
#include "runner/engine/ledger.h"
#include "runner/policies/storage.h"

namespace kvscope {

// What the index left, over the rows and query heads of the layers so far.
struct SparseMeasure {
  double density_sum = 0.0;  // of query heads: entries / causal entries
  double recall_sum = 0.0;   // of query heads: dense probability on the index, mean of last rows
  int n_heads = 0;
  double density() const { return n_heads > 0 ? density_sum / n_heads : 1.0; }
  double recall() const { return n_heads > 0 ? recall_sum / n_heads : 1.0; }
  void tell(Ledger& ledger) const {
    if (n_heads == 0) return;
    ledger.prefill_density = density();
    ledger.prefill_recall = recall();
  }
};

// Appends the rows' keys and values to `heads` (empty before), writes the rows' sparse attention to
// out, and the *dense* rows' log-sum-exps to lse: index and scores of a cut come from the dense
// attention of the sparse pass's own queries and keys. An index that holds everything gives the
// dense rows bit for bit.
//   qkv: [n_rows][row_floats]; out: [n_rows][n_heads * head_dim]; lse: [n_heads][n_rows]
void attend_sparse_prompt(Backend& backend, const AttentionShape& shape, const RopeTable& rope,
                          const SparsePrefill& sparse, HeadCache* heads, const float* qkv,
                          int n_rows, float* out, float* lse, SparseMeasure& measure);

}  // namespace kvscope
