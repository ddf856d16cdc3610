// Llama (Touvron et al. 2023, arXiv:2302.13971; Llama 3: arXiv:2407.21783): RMS norms before
// attention and MLP, RoPE on whole heads, grouped queries, SwiGLU, no biases.
#include "runner/model/architectures/all.h"
#include "runner/model/architectures/llama_names.h"
#include "runner/model/read_config.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"llama"};

// In GGUF files of this architecture queries and keys are stored as adjacent pairs already.
constexpr StoredTensor kFile[] = {
    {"token_embd.weight", "token_embd.weight"},
    {"output_norm.weight", "output_norm.weight"},
    {"output.weight", "output.weight"},
    {"attn_norm.weight", "blk.#.attn_norm.weight"},
    {"attn_q.weight", "blk.#.attn_q.weight"},
    {"attn_k.weight", "blk.#.attn_k.weight"},
    {"attn_v.weight", "blk.#.attn_v.weight"},
    {"attn_output.weight", "blk.#.attn_output.weight"},
    {"ffn_norm.weight", "blk.#.ffn_norm.weight"},
    {"ffn_gate.weight", "blk.#.ffn_gate.weight"},
    {"ffn_up.weight", "blk.#.ffn_up.weight"},
    {"ffn_down.weight", "blk.#.ffn_down.weight"},
};

void read_json(const JsonSettings& in, ModelConfig& c) {
  c.d_ff = in.positive("intermediate_size");
  c.rms_eps = float(in.positive_real("rms_norm_eps", 1e-6));
  require_json(in, "hidden_act", "silu");
  refuse_json(in, "attention_bias");
  refuse_json(in, "mlp_bias");
  read_json_tied_head(in, false, c);
  read_json_rope(in, c.head_dim, c);
}

// Mistral models are files of this architecture too; converters that keep their window write it.
void read_gguf(const GgufKeys& keys, ModelConfig& c) {
  read_gguf_sizes(keys, "attention.layer_norm_rms_epsilon", c);
  read_gguf_rope(keys, c);
  if (keys.has("attention.sliding_window")) {
    const int window = keys.positive("attention.sliding_window");
    if (window < c.context_length) c.window = window;
  }
}

}  // namespace

const Architecture kLlama = {.name = "llama",
                             .model_types = kTypes,
                             .read_json = read_json,
                             .read_gguf = read_gguf,
                             .in_folder = kLlamaFolder,
                             .in_file = kFile,
                             .unused = kUnusedOfLlama};

}  // namespace kvscope
