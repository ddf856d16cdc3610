// Row kernels around the attention blocks (attend_block.h). Vector width is chosen at run time
// (Highway, SSE4 to AVX-512).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runner/backend/backend.h"

namespace kvscope::cpu {

// acc[i] += weight · exp(logits[i] − lse).
void accumulate_weights(std::span<const float> logits, float lse, float weight, float* acc);

// y = x · s
void scale_row(float* x, int n, float s);

// Writes a page's keys rotated by the slots' ranks: out [head_dim][kPageSlots] f32.
void rotate_page(const std::byte* keys, DType dtype, int head_dim, const RopeTable& rope,
                 const int* ranks, int live, float* out);

// out = adjacent pairs of x turned by the angle of cos, sin [n_pairs], times scale.
void rotate_pairs(const float* x, int n_pairs, const float* cos, const float* sin, float scale,
                  float* out);

std::string vector_target();  // "AVX3_ZEN4", "AVX2", …

}  // namespace kvscope::cpu
