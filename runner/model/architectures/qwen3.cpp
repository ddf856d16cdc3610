// Qwen3 (Yang et al. 2025, arXiv:2505.09388): Llama with an RMS norm of every query and key head
// before RoPE.
#include "runner/model/architectures/all.h"
#include "runner/model/architectures/llama_names.h"
#include "runner/model/read_config.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"qwen3"};

constexpr auto kFolder =
    with(kLlamaFolder,
         {{"attn_q_norm.weight", "model.layers.#.self_attn.q_norm.weight", StoredRows::kTurned},
          {"attn_k_norm.weight", "model.layers.#.self_attn.k_norm.weight", StoredRows::kTurned}});
constexpr auto kFile =
    with(kTurnedFile, {{"attn_q_norm.weight", "blk.#.attn_q_norm.weight", StoredRows::kTurned},
                       {"attn_k_norm.weight", "blk.#.attn_k_norm.weight", StoredRows::kTurned}});

void read_json(const JsonSettings& in, ModelConfig& c) {
  c.form.qk_norm = true;
  c.d_ff = in.positive("intermediate_size");
  c.rms_eps = float(in.positive_real("rms_norm_eps", 1e-6));
  require_json(in, "hidden_act", "silu");
  refuse_json(in, "attention_bias");
  read_json_tied_head(in, false, c);
  read_json_rope(in, c.head_dim, c);
  if (in.boolean("use_sliding_window").value_or(false))
    read_json_windows(in, int(in.integer("max_window_layers").value_or(28)), c);
}

void read_gguf(const GgufKeys& keys, ModelConfig& c) {
  c.form.qk_norm = true;
  read_gguf_sizes(keys, "attention.layer_norm_rms_epsilon", c);
  read_gguf_rope(keys, c);
}

}  // namespace

const Architecture kQwen3 = {.name = "qwen3",
                             .model_types = kTypes,
                             .read_json = read_json,
                             .read_gguf = read_gguf,
                             .in_folder = kFolder,
                             .in_file = kFile,
                             .unused = kUnusedOfLlama};

}  // namespace kvscope
