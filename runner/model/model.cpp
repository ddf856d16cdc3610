#include "runner/model/model.h"

#include <algorithm>
#include <span>

#include "runner/base/sha256.h"

namespace kvscope {

namespace {

struct Part {
  std::string name;
  int n_out;
};

// Rows of several matrices one below the other, so that one matmul serves them all.
std::unique_ptr<PackedMatrix> pack_stacked(const WeightSource& source, Backend& backend,
                                           const std::vector<Part>& parts, int n_in, DType dtype) {
  int n_out = 0;
  for (const Part& part : parts) n_out += part.n_out;
  const auto read = [&](int first, int n, float* out) {
    int part_first = 0;
    for (const Part& part : parts) {
      const int begin = std::max(first, part_first);
      const int end = std::min(first + n, part_first + part.n_out);
      if (begin < end) {
        source.read_rows(part.name, part.n_out, n_in, begin - part_first, end - begin,
                         out + std::size_t(begin - first) * n_in);
      }
      part_first += part.n_out;
    }
  };
  return backend.pack(read, n_out, n_in, dtype);
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
                    std::string(name_of(dtype)) + ";" + std::string(name_of(kv_dtype)) +
                    (backend == "cpu" ? "" : ";" + backend));  // cpu: as before there were others
}

Model load_model(const WeightSource& source, Backend& backend, DType dtype, DType kv_dtype) {
  Model model;
  model.config = source.config();
  model.dtype = dtype;
  model.kv_dtype = kv_dtype;
  model.weights_sha256 = source.sha256();
  model.backend = backend.name();
  const ModelConfig& c = model.config;
  const BlockForm& form = c.form;
  const int d_query = c.n_heads * c.head_dim;
  const int d_kv = c.n_kv_heads * c.head_dim;
  const auto pack_table = [&](const char* name, int n_rows, float scale) {
    return backend.pack_embedding(
        [&source, &c, name, n_rows, scale](int first, int n, float* out) {
          source.read_rows(name, n_rows, c.d_model, first, n, out);
          if (scale == 1.0F) return;
          const std::span<float> rows(out, std::size_t(n) * c.d_model);
          for (float& value : rows) value *= scale;
        },
        n_rows, c.d_model, dtype);
  };
  model.embedding = pack_table("token_embd.weight", c.n_vocab, c.embedding_scale);
  if (form.learned_positions)
    model.positions = pack_table("position_embd.weight", c.context_length, 1.0F);
  model.head = pack_stacked(source, backend,
                            {{c.tied_head ? "token_embd.weight" : "output.weight", c.n_vocab}},
                            c.d_model, dtype);
  const auto read_vectors = [&](const std::vector<Part>& parts) {
    SharedVector<float> all(backend.memory());
    for (const Part& part : parts) {
      const std::vector<float> values = source.read(part.name, 1, part.n_out);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const auto read_norm = [&](const std::string& name) {
    NormWeights norm;
    norm.weight = read_vectors({{name + ".weight", c.d_model}});
    if (form.norm == Norm::kLayer) norm.bias = read_vectors({{name + ".bias", c.d_model}});
    return norm;
  };
  model.final_norm = read_norm("output_norm");
  for (int l = 0; l < c.n_layers; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    const auto parts = [&](std::vector<Part> named, const char* kind) {
      for (Part& part : named) part.name = block + part.name + kind;
      return named;
    };
    const auto pack = [&](const std::vector<Part>& named, int n_in) {
      return pack_stacked(source, backend, parts(named, ".weight"), n_in, dtype);
    };
    const auto biases = [&](const std::vector<Part>& named) {
      return read_vectors(parts(named, ".bias"));
    };
    const auto weights = [&](const char* name, int n) {
      return read_vectors(parts({{name, n}}, ".weight"));
    };
    const std::vector<Part> qkv = {{"attn_q", d_query}, {"attn_k", d_kv}, {"attn_v", d_kv}};
    std::vector<Part> gate_up = {{"ffn_up", c.d_ff}};
    if (is_gated(form.activation)) gate_up.insert(gate_up.begin(), {"ffn_gate", c.d_ff});
    LayerWeights layer;
    layer.attention_norm = read_norm(block + "attn_norm");
    layer.qkv = pack(qkv, c.d_model);
    layer.output = pack({{"attn_output", c.d_model}}, d_query);
    layer.mlp_norm = read_norm(block + "ffn_norm");
    layer.gate_up = pack(gate_up, c.d_model);
    layer.down = pack({{"ffn_down", c.d_model}}, c.d_ff);
    if (form.qkv_bias) layer.qkv_bias = biases(qkv);
    if (form.qk_norm) {
      layer.query_norm = weights("attn_q_norm", c.head_dim);
      layer.key_norm = weights("attn_k_norm", c.head_dim);
    }
    if (form.output_bias) layer.output_bias = biases({{"attn_output", c.d_model}});
    if (form.mlp_bias) {
      layer.gate_up_bias = biases(gate_up);
      layer.down_bias = biases({{"ffn_down", c.d_model}});
    }
    if (form.post_norms) {
      layer.post_attention_norm = weights("post_attention_norm", c.d_model);
      layer.post_mlp_norm = weights("post_ffw_norm", c.d_model);
    }
    model.layers.push_back(std::move(layer));
  }
  return model;
}

}  // namespace kvscope
