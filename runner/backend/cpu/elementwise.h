// Everything per row that is not a matrix product or attention. Rows are spread over the pool; each
// is computed by one thread in a fixed order, so its bits depend on that row alone.
#pragma once

#include <cstdint>
#include <span>

#include "runner/backend/backend.h"
#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

// y = x / sqrt(mean(x^2) + eps) * weight, for each row (Zhang & Sennrich 2019, arXiv:1910.07467).
// x, y: [rows][weight.size()]; may be the same memory. Squares are summed in double.
void rms_norm(ThreadPool& pool, const float* x, std::span<const float> weight, float eps, int rows,
              float* y);

// y = silu(gate) * up, silu(g) = g / (1 + exp(-g)) (Shazeer 2020, arXiv:2002.05202). gate_up:
// [rows][gate d_ff | up d_ff], y: [rows][d_ff].
void swiglu(ThreadPool& pool, const float* gate_up, int rows, int d_ff, float* y);

void add(ThreadPool& pool, std::span<const float> x, float* y);  // y += x

// y = (x − mean) / sqrt(variance + eps) * weight + bias, for each row (Ba, Kiros, Hinton 2016,
// arXiv:1607.06450). Moments are summed in double. x, y: [rows][weight.size()]; may be the same
// memory.
void layer_norm(ThreadPool& pool, const float* x, std::span<const float> weight,
                std::span<const float> bias, float eps, int rows, float* y);

void add_bias(ThreadPool& pool, std::span<const float> bias, int rows, float* y);  // rows += bias

// rms_norm of every head of queries and keys of qkv [rows][row_floats], in place. weights:
// [head_dim].
void norm_heads(ThreadPool& pool, const AttentionShape& shape, std::span<const float> query_weight,
                std::span<const float> key_weight, float eps, int rows, float* qkv);

// As Backend::activate. gelu(x) = x · Φ(x) (Hendrycks & Gimpel 2016, arXiv:1606.08415).
void activate(ThreadPool& pool, Activation activation, const float* x, int rows, int d_ff,
              float* y);

// log(sum(exp(row))) of each row of logits [rows][n]: float32 exponentials of the distance to the
// maximum, summed in double.
void log_sum_exp(ThreadPool& pool, const float* logits, int rows, std::size_t n, double* lse);

// Round to nearest, ties to even; NaN stays NaN.
void round_to_bf16(ThreadPool& pool, std::span<const float> x, std::uint16_t* y);
void round_to_bf16(std::span<const float> x, std::uint16_t* y);  // by the calling thread

}  // namespace kvscope::cpu
