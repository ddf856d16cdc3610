// What this machine can do at most, measured: what a stage reaches is stated as a share of it. The
// figures move with frequency and with the neighbours on a shared host, so they are taken anew each
// time, from the best of many short repetitions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

struct MachineLimits {                // all threads of the pool together
  std::string vector_target;          // instruction set of the loops, "AVX3_ZEN4", "AVX2", …
  double f32_flops_per_second = 0.0;  // multiply-adds in registers
  std::optional<double> bf16_flops_per_second;  // none: no dot product of bf16 in the hardware
  double read_bytes_per_second = 0.0;           // one stream a thread
};

struct MeasureOptions {
  double seconds = 0.35;                              // of each of the three
  std::size_t buffer_bytes = std::size_t{256} << 20;  // beyond any cache
};

MachineLimits measure_machine_limits(ThreadPool& pool, const MeasureOptions& options = {});

// The bf16 loop, in a file of its own (machine_limits_bf16.cpp).
bool has_bf16_dot();
double bf16_flops_per_round();
float bf16_dot_chains(int rounds);

}  // namespace kvscope::cpu
