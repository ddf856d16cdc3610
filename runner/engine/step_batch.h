// One token of each of many sequences through all layers: the decode step. Rows of all arms share
// one read of the weights.
#pragma once

#include <span>
#include <vector>

#include "runner/engine/layer_pass.h"

namespace kvscope {

struct StepRow {
  Sequence* sequence = nullptr;
  RowRule how;
  std::int32_t token = 0;
  int position = 0;
  Account* account = nullptr;  // optional
  std::size_t account_row = 0;
  // Of its stretch: selections come after every `chunk` of them, and after the last.
  int rows_before = 0;
  int rows_after = 0;
};

class StepBatch {
 public:
  StepBatch(EngineContext& context, Forward& forward)
      : context_(context),
        forward_(forward),
        x_(context.backend.memory()),
        qkv_(context.backend.memory()),
        attention_(context.backend.memory()) {}

  // Advances every row by its token. Returns the hidden states [rows][d_model], valid until the
  // next call.
  std::span<const float> run(std::span<const StepRow> rows);

 private:
  EngineContext& context_;
  Forward& forward_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
  Scratch x_;          // [rows][d_model]
  Scratch qkv_;        // [rows][row_floats]
  Scratch attention_;  // [rows][n_heads * head_dim]
  std::vector<ScanJob> jobs_;
  std::vector<StepSlots> steps_;  // [rows][n_kv_heads]
};

}  // namespace kvscope
