// Our own matrix kernel, for every machine and every weight type: panels of 16 output columns,
// [n_out/16][n_in][16], held in f32, bf16 or f16 and widened while loading. Each output is one
// chain of multiply-adds over n_in in ascending order, so its bits cannot depend on how many rows
// are computed together. SIMD by Highway, chosen at run time.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runner/backend/cpu/cpu_matrix.h"

namespace kvscope::cpu {

std::unique_ptr<CpuMatrix> make_portable_matrix(ThreadPool& pool, const ReadRows& rows, int n_out,
                                                int n_in, DType dtype);

std::string portable_target();  // the SIMD instruction set in use, e.g. "AVX2"

}  // namespace kvscope::cpu
