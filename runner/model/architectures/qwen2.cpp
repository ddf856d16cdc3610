// Qwen2 and 2.5 (Yang et al. 2024, arXiv:2407.10671): Llama with biases of queries, keys and
// values.
#include "runner/model/architectures/all.h"
#include "runner/model/architectures/llama_names.h"
#include "runner/model/read_config.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"qwen2"};

constexpr auto kFolder = with(
    kLlamaFolder, {{"attn_q.bias", "model.layers.#.self_attn.q_proj.bias", StoredRows::kTurned},
                   {"attn_k.bias", "model.layers.#.self_attn.k_proj.bias", StoredRows::kTurned},
                   {"attn_v.bias", "model.layers.#.self_attn.v_proj.bias"}});
constexpr auto kFile = with(kTurnedFile, {{"attn_q.bias", "blk.#.attn_q.bias", StoredRows::kTurned},
                                          {"attn_k.bias", "blk.#.attn_k.bias", StoredRows::kTurned},
                                          {"attn_v.bias", "blk.#.attn_v.bias"}});

void read_json(const JsonSettings& in, ModelConfig& c) {
  c.form.qkv_bias = true;
  c.d_ff = in.positive("intermediate_size");
  c.rms_eps = float(in.positive_real("rms_norm_eps", 1e-6));
  require_json(in, "hidden_act", "silu");
  read_json_tied_head(in, false, c);
  read_json_rope(in, c.head_dim, c);
  if (in.boolean("use_sliding_window").value_or(false))
    read_json_windows(in, int(in.integer("max_window_layers").value_or(28)), c);
}

void read_gguf(const GgufKeys& keys, ModelConfig& c) {
  c.form.qkv_bias = true;
  read_gguf_sizes(keys, "attention.layer_norm_rms_epsilon", c);
  read_gguf_rope(keys, c);
}

}  // namespace

const Architecture kQwen2 = {.name = "qwen2",
                             .model_types = kTypes,
                             .read_json = read_json,
                             .read_gguf = read_gguf,
                             .in_folder = kFolder,
                             .in_file = kFile,
                             .unused = kUnusedOfLlama};

}  // namespace kvscope
