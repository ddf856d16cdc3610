// OPT (Zhang et al. 2022, arXiv:2205.01068): LayerNorm, biases everywhere, a ReLU MLP, learned
// positions. The 350M model, whose norms come after and whose embedding is narrower, is refused.
#include "runner/model/architectures/all.h"
#include "runner/model/read_config.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"opt"};

// Nothing turns, so rows are as they are.
constexpr StoredTensor kFolder[] = {
    {"token_embd.weight", "model.decoder.embed_tokens.weight"},
    {"position_embd.weight", "model.decoder.embed_positions.weight", StoredRows::kAfterTwo},
    {"output_norm.weight", "model.decoder.final_layer_norm.weight"},
    {"output_norm.bias", "model.decoder.final_layer_norm.bias"},
    {"output.weight", "lm_head.weight"},
    {"attn_norm.weight", "model.decoder.layers.#.self_attn_layer_norm.weight"},
    {"attn_norm.bias", "model.decoder.layers.#.self_attn_layer_norm.bias"},
    {"attn_q.weight", "model.decoder.layers.#.self_attn.q_proj.weight"},
    {"attn_k.weight", "model.decoder.layers.#.self_attn.k_proj.weight"},
    {"attn_v.weight", "model.decoder.layers.#.self_attn.v_proj.weight"},
    {"attn_q.bias", "model.decoder.layers.#.self_attn.q_proj.bias"},
    {"attn_k.bias", "model.decoder.layers.#.self_attn.k_proj.bias"},
    {"attn_v.bias", "model.decoder.layers.#.self_attn.v_proj.bias"},
    {"attn_output.weight", "model.decoder.layers.#.self_attn.out_proj.weight"},
    {"attn_output.bias", "model.decoder.layers.#.self_attn.out_proj.bias"},
    {"ffn_norm.weight", "model.decoder.layers.#.final_layer_norm.weight"},
    {"ffn_norm.bias", "model.decoder.layers.#.final_layer_norm.bias"},
    {"ffn_up.weight", "model.decoder.layers.#.fc1.weight"},
    {"ffn_up.bias", "model.decoder.layers.#.fc1.bias"},
    {"ffn_down.weight", "model.decoder.layers.#.fc2.weight"},
    {"ffn_down.bias", "model.decoder.layers.#.fc2.bias"},
};

void read_json(const JsonSettings& in, ModelConfig& c) {
  c.form = {.norm = Norm::kLayer,
            .activation = Activation::kRelu,
            .qkv_bias = true,
            .output_bias = true,
            .mlp_bias = true,
            .learned_positions = true};
  c.d_ff = in.positive("ffn_dim");
  c.rms_eps = 1e-5F;
  const std::string act = in.string("activation_function").value_or("relu");
  if (act == "gelu") {
    c.form.activation = Activation::kGelu;
  } else {
    require_json(in, "activation_function", "relu");
  }
  if (!in.boolean("do_layer_norm_before").value_or(true) ||
      in.boolean("_remove_final_layer_norm").value_or(false))
    in.fail(
        "norms after the sub-layers (do_layer_norm_before false) are not supported; use "
        "another size of OPT");
  if (in.positive("word_embed_proj_dim", c.d_model) != c.d_model)
    in.fail("a projected embedding is not supported; use another size of OPT");
  for (const char* key : {"enable_bias", "layer_norm_elementwise_affine"}) {
    if (!in.boolean(key).value_or(true))
      in.fail(std::string(key) + " false is not supported; use another model");
  }
  read_json_tied_head(in, true, c);
  c.rotary_dim = 0;
  c.rope_frequency.assign(std::size_t(c.head_dim / 2), 0.0F);
}

}  // namespace

const Architecture kOpt = {.name = "opt",
                           .model_types = kTypes,
                           .in_gguf = false,
                           .read_json = read_json,
                           .read_gguf = nullptr,
                           .in_folder = kFolder,
                           .in_file = {}};

}  // namespace kvscope
