// Phi-3 (Abdin et al. 2024, arXiv:2404.14219): Llama with queries, keys and values in one matrix,
// gate and up in another, a sliding window, and RoPE on part of the head in later models. Its
// "longrope" scaling is not supported.
#include "runner/model/architectures/all.h"
#include "runner/model/architectures/llama_names.h"
#include "runner/model/read_config.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"phi3"};

constexpr StoredTensor kFolder[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"attn_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"attn_q.weight", "model.layers.#.self_attn.qkv_proj.weight", StoredRows::kStackedQuery},
    {"attn_k.weight", "model.layers.#.self_attn.qkv_proj.weight", StoredRows::kStackedKey},
    {"attn_v.weight", "model.layers.#.self_attn.qkv_proj.weight", StoredRows::kStackedValue},
    {"attn_output.weight", "model.layers.#.self_attn.o_proj.weight"},
    {"ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"ffn_gate.weight", "model.layers.#.mlp.gate_up_proj.weight", StoredRows::kFirstHalf},
    {"ffn_up.weight", "model.layers.#.mlp.gate_up_proj.weight", StoredRows::kSecondHalf},
    {"ffn_down.weight", "model.layers.#.mlp.down_proj.weight"},
};

constexpr StoredTensor kFile[] = {
    {"token_embd.weight", "token_embd.weight"},
    {"output_norm.weight", "output_norm.weight"},
    {"output.weight", "output.weight"},
    {"attn_norm.weight", "blk.#.attn_norm.weight"},
    {"attn_q.weight", "blk.#.attn_qkv.weight", StoredRows::kStackedQuery},
    {"attn_k.weight", "blk.#.attn_qkv.weight", StoredRows::kStackedKey},
    {"attn_v.weight", "blk.#.attn_qkv.weight", StoredRows::kStackedValue},
    {"attn_output.weight", "blk.#.attn_output.weight"},
    {"ffn_norm.weight", "blk.#.ffn_norm.weight"},
    {"ffn_gate.weight", "blk.#.ffn_up.weight", StoredRows::kFirstHalf},
    {"ffn_up.weight", "blk.#.ffn_up.weight", StoredRows::kSecondHalf},
    {"ffn_down.weight", "blk.#.ffn_down.weight"},
};

void read_json(const JsonSettings& in, ModelConfig& c) {
  c.d_ff = in.positive("intermediate_size");
  c.rms_eps = float(in.positive_real("rms_norm_eps", 1e-5));
  require_json(in, "hidden_act", "silu");
  read_json_tied_head(in, false, c);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = in.object(key);
    if (!rope) continue;
    const std::string type = rope->string("rope_type").value_or(rope->string("type").value_or(""));
    if (type != "" && type != "default")  // "yarn" of old files is longrope too
      in.fail("RoPE scaling " + kvscope::quoted(type) +
              " of Phi-3 is not supported; use a 4k model");
  }
  read_json_rope(in, json_rotary_dim(in, "partial_rotary_factor", 1.0, c), c);
  read_json_windows(in, 0, c);
}

void read_gguf(const GgufKeys& keys, ModelConfig& c) {
  read_gguf_sizes(keys, "attention.layer_norm_rms_epsilon", c);
  if (keys.file().tensor("rope_factors_long.weight") != nullptr)
    keys.fail("RoPE scaling 'longrope' of Phi-3 is not supported; use a 4k model");
  read_gguf_rope(keys, c);
  if (keys.has("attention.sliding_window")) {
    const int window = keys.positive("attention.sliding_window");
    if (window < c.context_length) c.window = window;
  }
}

}  // namespace

const Architecture kPhi3 = {.name = "phi3",
                            .model_types = kTypes,
                            .read_json = read_json,
                            .read_gguf = read_gguf,
                            .in_folder = kFolder,
                            .in_file = kFile,
                            .unused = kUnusedOfLlama};

}  // namespace kvscope
