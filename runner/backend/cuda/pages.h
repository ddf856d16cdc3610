// Slots in pages as kernels see them: the same bytes as PageShape lays out (page_pool.h), on
// pointers that the host has put together. Element access is in page_access.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runner/cache/page_pool.h"

namespace kvscope::cuda {

enum class SlotFormat : std::uint8_t { kF32, kF16, kBF16, kInt8, kFp8E4M3, kFp8E5M2 };

inline constexpr int kWarpSize = 32;
static_assert(kPageSlots == kWarpSize, "a lane of a warp is a slot of a page");

// How one page lies in memory.
struct PageLayout {
  int head_dim = 0;
  SlotFormat format = SlotFormat::kF32;
  bool has_values = true;
  std::uint32_t value_offset = 0;  // bytes from a page's start to its values
};

PageLayout layout_of(const PageShape& shape);

// The slots of one KV head.
struct HeadSlots {
  std::byte* const* pages = nullptr;  // [ceil(n_slots / kPageSlots)] start of each page
  // Rotation of each slot's key at read (cache-relative positions), or nullptr: keys are rotated as
  // they lie. [n_slots]
  const std::int32_t* rank = nullptr;
  int n_slots = 0;
};

// cos and sin of position · inverse frequency: [n_positions][head_dim / 2] (RopeTable).
struct RopeRows {
  const float* cos = nullptr;
  const float* sin = nullptr;
};

}  // namespace kvscope::cuda
