// Reading what KIVI has quantised (kivi_store.h), for attention in float32.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

struct KiviBlock {  // KiviStore::BlockView
  const std::uint32_t* codes;
  const std::uint16_t* min_max;
};

// One head: tokens before n_keys (n_values) are codes, the others lie in pages.
struct KiviHead {
  const KiviBlock* keys = nullptr;    // blocks of residual_tokens tokens
  const KiviBlock* values = nullptr;  // blocks of kPageSlots tokens
  int n_keys = 0;
  int n_values = 0;
  int bits = 2;
  int group = 32;
  int residual_tokens = 32;
  std::byte* const* pages = nullptr;  // plain pages, from page first_page on
  int first_page = 0;
  int n_slots = 0;
  std::byte* const* out = nullptr;  // [ceil(n_slots / kPageSlots)] float32 pages
};

// All slots of each head into float32 pages, at their own places. layout: of the plain pages.
void kivi_widen(const KiviHead* heads, int n_heads, PageLayout layout, cudaStream_t stream);

}  // namespace kvscope::cuda
