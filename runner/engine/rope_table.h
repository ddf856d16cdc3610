// cos and sin of every position in use.
#pragma once

#include "runner/backend/backend.h"

namespace kvscope {

// Adjacent pairs (2i, 2i+1) turn by position · inverse_frequency[i]; the inverse frequency and the
// angle are rounded to float32, as the published checkpoints' own code does (reference/README.md),
// cos and sin are taken in double. inverse_frequency: [head_dim / 2].
// memory: where the table lies (Backend::memory()).
RopeTable make_rope_table(std::span<const float> inverse_frequency, int n_positions,
                          Memory* memory = nullptr);
// Of head_dim and theta: the inverse frequencies are theta^(-2i/head_dim).
RopeTable make_rope_table(int head_dim, double theta, int n_positions, Memory* memory = nullptr);
// inverse_frequency: one of the config's; empty: of its head_dim and theta.
RopeTable make_rope_table(const ModelConfig& config, std::span<const float> inverse_frequency,
                          int n_positions, Memory* memory);

// out[head_dim] = x turned to `position`.
void rotate_to(const RopeTable& rope, const float* x, int position, float* out);

}  // namespace kvscope
