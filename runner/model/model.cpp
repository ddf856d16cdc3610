#include "runner/model/model.h"

#include <cstring>

#include "runner/base/sha256.h"

namespace kvscope {

namespace {

// Rows of several matrices one below the other, so that one matmul serves them all.
std::vector<float> stack(std::vector<std::vector<float>> parts) {
  std::vector<float> all = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i)
    all.insert(all.end(), parts[i].begin(), parts[i].end());
  return all;
}

}  // namespace

std::int64_t Model::kv_bytes_per_token() const {
  return std::int64_t(config.n_layers) * config.n_kv_heads *
         std::int64_t(page_shape().token_bytes());
}

std::string Model::key() const {
  const auto number = [](int n) { return std::to_string(n) + ";"; };
  return sha256_hex(config.name + ";" + weights_sha256 + ";" + number(config.n_layers) +
                    number(config.n_heads) + number(config.n_kv_heads) + number(config.head_dim) +
                    number(config.d_model) + number(config.d_ff) + number(config.n_vocab) +
                    std::string(name_of(dtype)) + ";" + std::string(name_of(kv_dtype)));
}

Model load_model(const WeightSource& source, Backend& backend, DType dtype, DType kv_dtype) {
  Model model;
  model.config = source.config();
  model.dtype = dtype;
  model.kv_dtype = kv_dtype;
  model.weights_sha256 = source.sha256();
  const ModelConfig& c = model.config;
  const int d_query = c.n_heads * c.head_dim;
  const int d_kv = c.n_kv_heads * c.head_dim;
  {
    const std::vector<float> table = source.read("token_embd.weight", c.n_vocab, c.d_model);
    model.embedding = backend.pack_embedding(table, c.n_vocab, c.d_model, dtype);
    model.head = c.tied_head ? backend.pack(table, c.n_vocab, c.d_model, dtype)
                             : backend.pack(source.read("output.weight", c.n_vocab, c.d_model),
                                            c.n_vocab, c.d_model, dtype);
  }
  model.final_norm = source.read("output_norm.weight", 1, c.d_model);
  for (int l = 0; l < c.n_layers; ++l) {
    const std::string prefix = "blk." + std::to_string(l) + ".";
    const auto read = [&](const char* name, int n_out, int n_in) {
      return source.read(prefix + name + ".weight", n_out, n_in);
    };
    LayerWeights layer;
    layer.attention_norm = read("attn_norm", 1, c.d_model);
    layer.qkv =
        backend.pack(stack({read("attn_q", d_query, c.d_model), read("attn_k", d_kv, c.d_model),
                            read("attn_v", d_kv, c.d_model)}),
                     d_query + 2 * d_kv, c.d_model, dtype);
    layer.output = backend.pack(read("attn_output", c.d_model, d_query), c.d_model, d_query, dtype);
    layer.mlp_norm = read("ffn_norm", 1, c.d_model);
    layer.gate_up = backend.pack(
        stack({read("ffn_gate", c.d_ff, c.d_model), read("ffn_up", c.d_ff, c.d_model)}), 2 * c.d_ff,
        c.d_model, dtype);
    layer.down = backend.pack(read("ffn_down", c.d_model, c.d_ff), c.d_model, c.d_ff, dtype);
    model.layers.push_back(std::move(layer));
  }
  return model;
}

}  // namespace kvscope
