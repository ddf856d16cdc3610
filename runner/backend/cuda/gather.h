// What arms keep of a dense prompt, from rows of projections into their pages.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

enum class GatherAngle : std::uint8_t { kPosition, kNone, kOrder };

// Tokens of one KV head: slot first_slot + i takes prompt row positions[i], whose key turns to its
// position, not at all, or to i.
struct GatherHead {
  std::byte* const* pages = nullptr;        // of slots 0 …
  const std::int32_t* positions = nullptr;  // [n]
  int n = 0;
  int first_slot = 0;
  int kv_head = 0;
  GatherAngle angle = GatherAngle::kPosition;
};

struct GatherRows {
  const GatherHead* heads = nullptr;  // [n_jobs] device-visible
  int n_jobs = 0;
  int most = 0;                // largest n of them
  const float* qkv = nullptr;  // [rows][row_floats] raw projections
  std::size_t row_floats = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
};
void gather_rows(const GatherRows& job, PageLayout layout, RopeRows rope, cudaStream_t stream);

}  // namespace kvscope::cuda
