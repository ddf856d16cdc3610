// Gemma 3 (Gemma Team 2025, arXiv:2503.19786): most layers attend to a sliding window and turn by
// another base than the others, norms of query and key heads and of each sub-layer's result, norms
// that weigh by 1 + w, a GELU-gated MLP, embeddings scaled by √d_model. Text only: folders of the
// models that also see hold the same tensors beside others, which are not read.
#include <cmath>

#include "runner/model/architectures/all.h"
#include "runner/model/read_config.h"
#include "runner/model/rope_frequencies.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"gemma3_text", "gemma3"};

constexpr StoredTensor kFolder[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight", StoredRows::kAll, 1.0F},
    {"output.weight", "lm_head.weight"},
    {"attn_norm.weight", "model.layers.#.input_layernorm.weight", StoredRows::kAll, 1.0F},
    {"attn_q.weight", "model.layers.#.self_attn.q_proj.weight", StoredRows::kTurned},
    {"attn_k.weight", "model.layers.#.self_attn.k_proj.weight", StoredRows::kTurned},
    {"attn_v.weight", "model.layers.#.self_attn.v_proj.weight"},
    {"attn_q_norm.weight", "model.layers.#.self_attn.q_norm.weight", StoredRows::kTurned, 1.0F},
    {"attn_k_norm.weight", "model.layers.#.self_attn.k_norm.weight", StoredRows::kTurned, 1.0F},
    {"attn_output.weight", "model.layers.#.self_attn.o_proj.weight"},
    {"post_attention_norm.weight", "model.layers.#.post_attention_layernorm.weight",
     StoredRows::kAll, 1.0F},
    {"ffn_norm.weight", "model.layers.#.pre_feedforward_layernorm.weight", StoredRows::kAll, 1.0F},
    {"ffn_gate.weight", "model.layers.#.mlp.gate_proj.weight"},
    {"ffn_up.weight", "model.layers.#.mlp.up_proj.weight"},
    {"ffn_down.weight", "model.layers.#.mlp.down_proj.weight"},
    {"post_ffw_norm.weight", "model.layers.#.post_feedforward_layernorm.weight", StoredRows::kAll,
     1.0F},
};

// Converters have added the ones.
constexpr StoredTensor kFile[] = {
    {"token_embd.weight", "token_embd.weight"},
    {"output_norm.weight", "output_norm.weight"},
    {"output.weight", "output.weight"},
    {"attn_norm.weight", "blk.#.attn_norm.weight"},
    {"attn_q.weight", "blk.#.attn_q.weight", StoredRows::kTurned},
    {"attn_k.weight", "blk.#.attn_k.weight", StoredRows::kTurned},
    {"attn_v.weight", "blk.#.attn_v.weight"},
    {"attn_q_norm.weight", "blk.#.attn_q_norm.weight", StoredRows::kTurned},
    {"attn_k_norm.weight", "blk.#.attn_k_norm.weight", StoredRows::kTurned},
    {"attn_output.weight", "blk.#.attn_output.weight"},
    {"post_attention_norm.weight", "blk.#.post_attention_norm.weight"},
    {"ffn_norm.weight", "blk.#.ffn_norm.weight"},
    {"ffn_gate.weight", "blk.#.ffn_gate.weight"},
    {"ffn_up.weight", "blk.#.ffn_up.weight"},
    {"ffn_down.weight", "blk.#.ffn_down.weight"},
    {"post_ffw_norm.weight", "blk.#.post_ffw_norm.weight"},
};

constexpr std::string_view kUnused[] = {"rotary_emb.inv_freq", "vision_tower.",
                                        "model.vision_tower.", "multi_modal_projector.",
                                        "model.multi_modal_projector."};

constexpr double kGlobalTheta = 1'000'000.0;
constexpr double kLocalTheta = 10'000.0;
constexpr int kPattern = 6;  // every sixth layer attends to everything

void set_form(ModelConfig& c) {
  c.form = {.activation = Activation::kGeGluTanh, .qk_norm = true, .post_norms = true};
  c.embedding_scale = std::sqrt(float(c.d_model));
}

// Windows of all layers but every `pattern`-th, unless they are known already.
void set_windows(int window, int pattern, ModelConfig& c) {
  c.window = window;
  for (int layer = 0; layer < c.n_layers && int(c.windowed.size()) < c.n_layers; ++layer)
    c.windowed.push_back((layer + 1) % pattern != 0);
}

void set_defaults(ModelConfig& c) {
  c.n_heads = 8;
  c.n_kv_heads = 4;
  c.head_dim = 256;
  c.n_vocab = 262'208;
  c.context_length = 131'072;
}

void read_json(const JsonSettings& in, ModelConfig& c) {
  set_form(c);
  c.d_ff = in.positive("intermediate_size");
  c.rms_eps = float(in.positive_real("rms_norm_eps", 1e-6));
  require_json(in, "hidden_activation", "gelu_pytorch_tanh");
  for (const char* key : {"attention_bias", "use_bidirectional_attention"}) refuse_json(in, key);
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (in.has(key)) in.fail(std::string(key) + " is not supported; use another model");
  }
  read_json_tied_head(in, true, c);
  c.query_scale = float(1.0 / std::sqrt(in.positive_real("query_pre_attn_scalar", 256.0)));
  read_json_windows(in, 0, c);
  if (c.windowed.empty())
    set_windows(in.positive("sliding_window", 4096),
                in.positive("sliding_window_pattern", kPattern), c);
  const auto sets = in.object("rope_parameters");
  double magnitude = 1.0;
  const auto frequencies = [&](const char* set, double theta, const char* old_scaling) {
    auto rope = sets ? sets->object(set) : in.object(old_scaling);
    if (sets && rope) theta = rope->positive_real("rope_theta", theta);
    return rope ? json_rope_frequencies(*rope, theta, c.head_dim, c, magnitude)
                : rope_frequencies(c.head_dim, c.head_dim, theta);
  };
  c.rope_theta = in.positive_real("rope_theta", kGlobalTheta);
  c.rope_frequency = frequencies("full_attention", c.rope_theta, "rope_scaling");
  c.windowed_rope_frequency =
      frequencies("sliding_attention", in.positive_real("rope_local_base_freq", kLocalTheta), "");
  if (magnitude != 1.0) in.fail("YaRN scaling of Gemma 3 is not supported; use another model");
}

void read_gguf(const GgufKeys& keys, ModelConfig& c) {
  read_gguf_sizes(keys, "attention.layer_norm_rms_epsilon", c);
  set_form(c);
  c.rope_theta = kGlobalTheta;
  read_gguf_rope(keys, c);
  if (c.rope_frequency.empty())
    c.rope_frequency = rope_frequencies(c.head_dim, c.head_dim, c.rope_theta);
  c.windowed_rope_frequency = rope_frequencies(
      c.head_dim, c.head_dim, keys.positive_real("rope.freq_base_swa", kLocalTheta));
  // No key says which numbers queries are divided by: the largest model's is of its width.
  constexpr int kLayersOf27B = 62;
  const double divisor = c.n_layers == kLayersOf27B ? double(c.d_model) / c.n_heads : c.head_dim;
  c.query_scale = float(keys.positive_real("attention.scale", 1.0 / std::sqrt(divisor)));
  int pattern = kPattern;
  const auto key = keys.key("attention.sliding_window_pattern");
  const auto stored = keys.file().metadata().find(key);
  if (stored != keys.file().metadata().end() && stored->second.type != GgufType::kArray) {
    pattern = keys.positive("attention.sliding_window_pattern");
  } else if (stored != keys.file().metadata().end()) {
    const GgufValue& layers = stored->second;
    if (layers.element != GgufType::kBool || layers.count != std::uint64_t(c.n_layers))
      keys.fail("key " + kvscope::quoted(key) +
                " is not one flag a layer; convert the model again");
    for (const std::byte layer : layers.values) c.windowed.push_back(layer != std::byte{0});
  }
  set_windows(keys.positive("attention.sliding_window"), pattern, c);
}

}  // namespace

const Architecture kGemma3 = {.name = "gemma3",
                              .model_types = kTypes,
                              .set_defaults = set_defaults,
                              .read_json = read_json,
                              .read_gguf = read_gguf,
                              .in_folder = kFolder,
                              .in_file = kFile,
                              .unused = kUnused};

}  // namespace kvscope
