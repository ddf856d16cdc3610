// Where checkpoints of Llama's family keep their tensors; members add theirs.
#pragma once

#include <array>

#include "runner/model/architecture.h"

namespace kvscope {

// Names of the Hugging Face folders. Heads are stored with their halves as pairs.
inline constexpr std::array<StoredTensor, 12> kLlamaFolder = {{
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"attn_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"attn_q.weight", "model.layers.#.self_attn.q_proj.weight", StoredRows::kTurned},
    {"attn_k.weight", "model.layers.#.self_attn.k_proj.weight", StoredRows::kTurned},
    {"attn_v.weight", "model.layers.#.self_attn.v_proj.weight"},
    {"attn_output.weight", "model.layers.#.self_attn.o_proj.weight"},
    {"ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"ffn_gate.weight", "model.layers.#.mlp.gate_proj.weight"},
    {"ffn_up.weight", "model.layers.#.mlp.up_proj.weight"},
    {"ffn_down.weight", "model.layers.#.mlp.down_proj.weight"},
}};

// Names of GGUF files where queries and keys are as in the folder (all but Llama itself).
inline constexpr std::array<StoredTensor, 12> kTurnedFile = {{
    {"token_embd.weight", "token_embd.weight"},
    {"output_norm.weight", "output_norm.weight"},
    {"output.weight", "output.weight"},
    {"attn_norm.weight", "blk.#.attn_norm.weight"},
    {"attn_q.weight", "blk.#.attn_q.weight", StoredRows::kTurned},
    {"attn_k.weight", "blk.#.attn_k.weight", StoredRows::kTurned},
    {"attn_v.weight", "blk.#.attn_v.weight"},
    {"attn_output.weight", "blk.#.attn_output.weight"},
    {"ffn_norm.weight", "blk.#.ffn_norm.weight"},
    {"ffn_gate.weight", "blk.#.ffn_gate.weight"},
    {"ffn_up.weight", "blk.#.ffn_up.weight"},
    {"ffn_down.weight", "blk.#.ffn_down.weight"},
}};

// Old checkpoints hold what is computed from config.json.
inline constexpr std::array<std::string_view, 1> kUnusedOfLlama = {"rotary_emb.inv_freq"};

template <std::size_t N, std::size_t M>
constexpr std::array<StoredTensor, N + M> with(const std::array<StoredTensor, N>& base,
                                               const StoredTensor (&more)[M]) {
  std::array<StoredTensor, N + M> all{};
  for (std::size_t i = 0; i < N; ++i) all[i] = base[i];
  for (std::size_t i = 0; i < M; ++i) all[N + i] = more[i];
  return all;
}

}  // namespace kvscope
