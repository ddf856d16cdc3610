// Kernels over rows without attention. All pointers are device-visible; all calls are asynchronous
// on `stream`; zero rows are allowed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu_runtime.h"
#include "runner/base/dtype.h"

namespace kvscope::cuda {

// out[r] = row ids[r] of table [n_vocab][d_model], widened to float32. out: [n][d_model].
void embed(const void* table, DType dtype, int d_model, const std::int32_t* ids, int n, float* out,
           cudaStream_t stream);

// y = x · weight / sqrt(mean(x²) + eps) of each row [d]. The sum's order depends on d alone. y may
// be x.
void rms_norm(const float* x, const float* weight, float eps, int rows, int d, float* y,
              cudaStream_t stream);

// gate_up: [rows][gate d_ff | up d_ff]; y: [rows][d_ff] = gate · sigmoid(gate) · up.
void swiglu(const float* gate_up, int rows, int d_ff, float* y, cudaStream_t stream);

// y[i] += x[i].
void add(const float* x, std::size_t n, float* y, cudaStream_t stream);

// out[r] = x[rows[r]], rows of `width` floats.
void copy_rows(const float* x, int width, const std::int32_t* rows, int n, float* out,
               cudaStream_t stream);

// Rounds n_values of x to dtype (ties to even) and fills the rest up to n_padded with zeros: the
// operand of a product whose rows are padded to a block. out: [n_padded] of dtype.
void to_dtype(const float* x, std::size_t n_values, std::size_t n_padded, DType dtype, void* out,
              cudaStream_t stream);

}  // namespace kvscope::cuda
