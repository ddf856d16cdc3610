// The shape of a Llama-architecture decoder.
#pragma once

#include <string>

namespace kvscope {

inline constexpr int kMaxHeadDim = 512;  // kernels keep one head's row on the stack

struct ModelConfig {
  std::string architecture;  // general.architecture, "llama"
  std::string name;          // general.name, or the file's stem
  int n_layers = 0;
  int n_heads = 0;     // query heads
  int n_kv_heads = 0;  // divides n_heads
  int head_dim = 0;    // even
  int d_model = 0;
  int d_ff = 0;
  int n_vocab = 0;
  int context_length = 0;  // trained length; absolute positions beyond it are refused
  float rms_eps = 1e-5F;
  double rope_theta = 10000.0;
  bool tied_head = false;  // the output matrix is the embedding

  int group() const { return n_heads / n_kv_heads; }  // query heads per KV head
};

}  // namespace kvscope
