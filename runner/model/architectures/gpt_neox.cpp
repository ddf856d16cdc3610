// GPT-NeoX and Pythia (Black et al. 2022, arXiv:2204.06745): LayerNorm, biases everywhere, RoPE on
// part of the head, queries, keys and values head by head in one matrix, an ungated GELU MLP that
// reads the block's input beside attention.
#include "runner/model/architectures/all.h"
#include "runner/model/read_config.h"
#include "runner/model/rope_frequencies.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"gpt_neox"};

constexpr StoredTensor kFolder[] = {
    {"token_embd.weight", "gpt_neox.embed_in.weight"},
    {"output_norm.weight", "gpt_neox.final_layer_norm.weight"},
    {"output_norm.bias", "gpt_neox.final_layer_norm.bias"},
    {"output.weight", "embed_out.weight"},
    {"attn_norm.weight", "gpt_neox.layers.#.input_layernorm.weight"},
    {"attn_norm.bias", "gpt_neox.layers.#.input_layernorm.bias"},
    {"attn_q.weight", "gpt_neox.layers.#.attention.query_key_value.weight", StoredRows::kHeadQuery},
    {"attn_k.weight", "gpt_neox.layers.#.attention.query_key_value.weight", StoredRows::kHeadKey},
    {"attn_v.weight", "gpt_neox.layers.#.attention.query_key_value.weight", StoredRows::kHeadValue},
    {"attn_q.bias", "gpt_neox.layers.#.attention.query_key_value.bias", StoredRows::kHeadQuery},
    {"attn_k.bias", "gpt_neox.layers.#.attention.query_key_value.bias", StoredRows::kHeadKey},
    {"attn_v.bias", "gpt_neox.layers.#.attention.query_key_value.bias", StoredRows::kHeadValue},
    {"attn_output.weight", "gpt_neox.layers.#.attention.dense.weight"},
    {"attn_output.bias", "gpt_neox.layers.#.attention.dense.bias"},
    {"ffn_norm.weight", "gpt_neox.layers.#.post_attention_layernorm.weight"},
    {"ffn_norm.bias", "gpt_neox.layers.#.post_attention_layernorm.bias"},
    {"ffn_up.weight", "gpt_neox.layers.#.mlp.dense_h_to_4h.weight"},
    {"ffn_up.bias", "gpt_neox.layers.#.mlp.dense_h_to_4h.bias"},
    {"ffn_down.weight", "gpt_neox.layers.#.mlp.dense_4h_to_h.weight"},
    {"ffn_down.bias", "gpt_neox.layers.#.mlp.dense_4h_to_h.bias"},
};

constexpr StoredTensor kFile[] = {
    {"token_embd.weight", "token_embd.weight"},
    {"output_norm.weight", "output_norm.weight"},
    {"output_norm.bias", "output_norm.bias"},
    {"output.weight", "output.weight"},
    {"attn_norm.weight", "blk.#.attn_norm.weight"},
    {"attn_norm.bias", "blk.#.attn_norm.bias"},
    {"attn_q.weight", "blk.#.attn_qkv.weight", StoredRows::kStackedQuery},
    {"attn_k.weight", "blk.#.attn_qkv.weight", StoredRows::kStackedKey},
    {"attn_v.weight", "blk.#.attn_qkv.weight", StoredRows::kStackedValue},
    {"attn_q.bias", "blk.#.attn_qkv.bias", StoredRows::kStackedQuery},
    {"attn_k.bias", "blk.#.attn_qkv.bias", StoredRows::kStackedKey},
    {"attn_v.bias", "blk.#.attn_qkv.bias", StoredRows::kStackedValue},
    {"attn_output.weight", "blk.#.attn_output.weight"},
    {"attn_output.bias", "blk.#.attn_output.bias"},
    {"ffn_norm.weight", "blk.#.ffn_norm.weight"},
    {"ffn_norm.bias", "blk.#.ffn_norm.bias"},
    {"ffn_up.weight", "blk.#.ffn_up.weight"},
    {"ffn_up.bias", "blk.#.ffn_up.bias"},
    {"ffn_down.weight", "blk.#.ffn_down.weight"},
    {"ffn_down.bias", "blk.#.ffn_down.bias"},
};

// Causal masks and rotation tables that old checkpoints hold.
constexpr std::string_view kUnused[] = {"rotary_emb.inv_freq", "attention.bias",
                                        "attention.masked_bias"};

void set_form(ModelConfig& c, bool parallel) {
  c.form = {.norm = Norm::kLayer,
            .activation = Activation::kGelu,
            .qkv_bias = true,
            .output_bias = true,
            .mlp_bias = true,
            .parallel_mlp = parallel};
}

void read_json(const JsonSettings& in, ModelConfig& c) {
  set_form(c, in.boolean("use_parallel_residual").value_or(true));
  c.d_ff = in.positive("intermediate_size");
  c.rms_eps = float(in.positive_real("layer_norm_eps", 1e-5));
  const std::string act = in.string("hidden_act").value_or("gelu");
  if (act == "gelu_new" || act == "gelu_fast" || act == "gelu_pytorch_tanh") {
    c.form.activation = Activation::kGeluTanh;
  } else {
    require_json(in, "hidden_act", "gelu");
  }
  if (!in.boolean("attention_bias").value_or(true))
    in.fail("attention without biases is not supported; use another model");
  read_json_tied_head(in, false, c);
  read_json_rope(in, json_rotary_dim(in, "rotary_pct", 0.25, c), c);
  if (in.has("rotary_emb_base") && !in.has("rope_parameters")) {
    c.rope_theta = in.positive_real("rotary_emb_base");
    c.rope_frequency =
        rope_frequencies(c.head_dim, c.rotary_dim > 0 ? c.rotary_dim : c.head_dim, c.rope_theta);
  }
}

void read_gguf(const GgufKeys& keys, ModelConfig& c) {
  set_form(c, keys.file().boolean(keys.key("use_parallel_residual")).value_or(true));
  read_gguf_sizes(keys, "attention.layer_norm_epsilon", c);
  read_gguf_rope(keys, c);
}

}  // namespace

const Architecture kGptNeox = {.name = "gptneox",
                               .model_types = kTypes,
                               .read_json = read_json,
                               .read_gguf = read_gguf,
                               .in_folder = kFolder,
                               .in_file = kFile,
                               .unused = kUnused};

}  // namespace kvscope
