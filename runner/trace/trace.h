// What a trace holds: the raw projections of one full-cache run at some layers. Queries, keys and
// values before RoPE are all that attention depends on, so full attention can be computed again
// from them and any policy replayed, without the model's weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/base/dtype.h"
#include "runner/model/model.h"

namespace kvscope {

struct TraceFacts {
  std::string model_name;
  std::string model_key;       // Model::key()
  std::string weights_sha256;  // of the model's file
  DType dtype = DType::kF32;   // of the model's weights
  DType kv_dtype = DType::kF32;
  int n_layers = 0;  // of the model
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  double rope_theta = 10000.0;
  DType store = DType::kF32;  // of the rows in the file: kF32 or kBF16
  std::vector<int> layers;    // recorded ones, ascending
  int n_tokens = 0;           // T >= 1
  int prompt_tokens = 0;      // 0: none, policies act from the first token on
  std::int64_t text_bytes = 0;

  AttentionShape shape() const { return {n_heads, n_kv_heads, head_dim}; }
  bool has_all_layers() const { return int(layers.size()) == n_layers; }
  std::size_t layer_floats() const { return std::size_t(n_tokens) * shape().row_floats(); }
};

TraceFacts facts_of(const Model& model);

// {0, L/4, L/2, 3L/4, L-1} without repetitions (policies.md 8.8).
std::vector<int> sampled_layers(int n_layers);

}  // namespace kvscope
