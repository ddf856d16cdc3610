// The shape of a decoder: Llama's, and what other architectures do differently, as data.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace kvscope {

inline constexpr int kMaxHeadDim = 512;  // kernels keep one head's row on the stack

enum class Norm : std::uint8_t { kRms, kLayer };
enum class Activation : std::uint8_t {
  kSwiGlu,     // silu(gate) ⊙ up
  kGeGluTanh,  // gelu(gate) ⊙ up, gelu by its tanh approximation
  kRelu,       // no gate
  kGelu,       // no gate, exact (erf)
  kGeluTanh    // no gate, tanh approximation
};
constexpr bool is_gated(Activation activation) { return activation <= Activation::kGeGluTanh; }

// What a block is made of; as it stands, Llama's. The forward pass reads it (engine/forward.h).
struct BlockForm {
  Norm norm = Norm::kRms;
  Activation activation = Activation::kSwiGlu;
  bool qkv_bias = false;
  bool output_bias = false;   // of attention's output projection
  bool mlp_bias = false;      // of both products of the MLP
  bool qk_norm = false;       // RMS norm of every query and key head, before RoPE
  bool post_norms = false;    // RMS norms of attention's and the MLP's result, before it is added
  bool parallel_mlp = false;  // the MLP reads the block's input, not attention's result
  bool learned_positions = false;  // a table of position vectors in place of RoPE

  bool operator==(const BlockForm&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "llama", "qwen2", … (architecture.h)
  std::string name;          // general.name, or the file's stem
  int n_layers = 0;
  int n_heads = 0;     // query heads
  int n_kv_heads = 0;  // divides n_heads
  int head_dim = 0;    // even
  int d_model = 0;
  int d_ff = 0;
  int n_vocab = 0;
  int context_length = 0;  // trained length; absolute positions beyond it are refused
  float rms_eps = 1e-5F;   // of all norms
  double rope_theta = 10000.0;
  bool tied_head = false;  // the output matrix is the embedding

  BlockForm form = {};
  int rotary_dim = 0;  // leading dimensions of a head that RoPE turns; 0: all
  // Angle of pair (2i, 2i+1) at position 1, [head_dim / 2]; 0 turns nothing (partial rotation).
  // Empty: rope_theta^(-2i/head_dim).
  std::vector<float> rope_frequency = {};
  std::vector<float> windowed_rope_frequency = {};  // of layers with a window; empty: as the others
  int window = 0;  // positions that a layer with a window attends to, its own included; 0: none has
  std::vector<bool> windowed = {};             // [n_layers] which layers have it; empty: all
  float query_scale = 0.0F;                    // of q·k; 0: 1/√head_dim
  float embedding_scale = 1.0F;                // of token vectors as they enter the first layer
  std::vector<std::int32_t> stop_tokens = {};  // beside the tokenizer's own end

  int group() const { return n_heads / n_kv_heads; }  // query heads per KV head
  int window_of(int layer) const {
    return windowed.empty() || windowed[std::size_t(layer)] ? window : 0;
  }
  bool uses_windowed_rope(int layer) const {
    return window_of(layer) > 0 && !windowed_rope_frequency.empty();
  }
  // A Llama block with rotations of any frequencies: what every backend can compute.
  bool is_plain() const { return form == BlockForm{} && window == 0 && query_scale == 0.0F; }
};

}  // namespace kvscope
