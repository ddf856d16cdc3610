// Weights on a backend, and everything about a model that its results depend on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/model/config.h"
#include "runner/model/weight_source.h"

namespace kvscope {

// A norm's weight and, for LayerNorm, its bias: [d_model] each.
struct NormWeights {
  SharedVector<float> weight;
  SharedVector<float> bias;
};

// Vectors that a model's form (BlockForm) does not have are empty.
struct LayerWeights {
  NormWeights attention_norm;
  std::unique_ptr<PackedMatrix> qkv;        // [(n_heads + 2 n_kv_heads) * head_dim][d_model]
  SharedVector<float> qkv_bias;             // [(n_heads + 2 n_kv_heads) * head_dim]
  SharedVector<float> query_norm;           // [head_dim]
  SharedVector<float> key_norm;             // [head_dim]
  std::unique_ptr<PackedMatrix> output;     // [d_model][n_heads * head_dim]
  SharedVector<float> output_bias;          // [d_model]
  SharedVector<float> post_attention_norm;  // [d_model]
  NormWeights mlp_norm;
  std::unique_ptr<PackedMatrix> gate_up;  // [2 * d_ff][d_model]; without a gate [d_ff][d_model]
  SharedVector<float> gate_up_bias;       // as many as gate_up has rows
  std::unique_ptr<PackedMatrix> down;     // [d_model][d_ff]
  SharedVector<float> down_bias;          // [d_model]
  SharedVector<float> post_mlp_norm;      // [d_model]
};

struct Model {
  ModelConfig config;
  DType dtype = DType::kF32;     // of the packed weights
  DType kv_dtype = DType::kF32;  // of cached keys and values
  std::string weights_sha256;    // of the file
  std::string backend = "cpu";   // name of the one that holds the weights
  std::unique_ptr<EmbeddingTable> embedding;
  std::unique_ptr<EmbeddingTable> positions;  // [context_length][d_model], where they are learned
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  std::unique_ptr<PackedMatrix> head;  // [n_vocab][d_model]

  AttentionShape attention_shape(int layer) const {
    return {config.n_heads, config.n_kv_heads, config.head_dim, config.query_scale,
            config.window_of(layer)};
  }
  PageShape page_shape() const { return {config.head_dim, kv_dtype, true}; }
  // Bytes of keys and values that one token holds in all layers (46,080 for SmolLM2-135M in f32).
  std::int64_t kv_bytes_per_token() const;
  // sha-256 over name, weights, shape, both dtypes and the backend: results of different keys are
  // never mixed.
  std::string key() const;
};

// Dequantises, packs and uploads. Throws DataError for a model that does not fit the architecture.
Model load_model(const WeightSource& source, Backend& backend, DType dtype, DType kv_dtype);

}  // namespace kvscope
