#include "runner/model/model.h"

#include <algorithm>

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
  const int d_query = c.n_heads * c.head_dim;
  const int d_kv = c.n_kv_heads * c.head_dim;
  model.embedding = backend.pack_embedding(
      [&](int first, int n, float* out) {
        source.read_rows("token_embd.weight", c.n_vocab, c.d_model, first, n, out);
      },
      c.n_vocab, c.d_model, dtype);
  model.head = pack_stacked(source, backend,
                            {{c.tied_head ? "token_embd.weight" : "output.weight", c.n_vocab}},
                            c.d_model, dtype);
  const auto read_norm = [&](const std::string& name) {
    const std::vector<float> values = source.read(name, 1, c.d_model);
    return SharedVector<float>(values.begin(), values.end(), backend.memory());
  };
  model.final_norm = read_norm("output_norm.weight");
  for (int l = 0; l < c.n_layers; ++l) {
    const auto name = [&](const char* part) {
      return "blk." + std::to_string(l) + "." + part + ".weight";
    };
    const auto pack = [&](const std::vector<Part>& parts, int n_in) {
      return pack_stacked(source, backend, parts, n_in, dtype);
    };
    LayerWeights layer;
    layer.attention_norm = read_norm(name("attn_norm"));
    layer.qkv = pack({{name("attn_q"), d_query}, {name("attn_k"), d_kv}, {name("attn_v"), d_kv}},
                     c.d_model);
    layer.output = pack({{name("attn_output"), c.d_model}}, d_query);
    layer.mlp_norm = read_norm(name("ffn_norm"));
    layer.gate_up = pack({{name("ffn_gate"), c.d_ff}, {name("ffn_up"), c.d_ff}}, c.d_model);
    layer.down = pack({{name("ffn_down"), c.d_model}}, c.d_ff);
    model.layers.push_back(std::move(layer));
  }
  return model;
}

}  // namespace kvscope
