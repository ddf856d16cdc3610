// Writing rows into cache slots and rotating queries and keys: the element-level side of the CPU
// cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "runner/backend/backend.h"
#include "runner/backend/cpu/attend_block.h"

namespace kvscope::cpu {

// out[head_dim] = x rotated to `angle` (a position or a rank), times scale. Adjacent pairs.
void rotate_row(const RopeTable& rope, const float* x, int angle, float scale, float* out);

// Writes one token's keys (rotated to *angle, or as they are) and values into an open slot. k, v:
// [head_dim].
void write_slot(HeadCache& head, int slot, const float* k, const float* v, const RopeTable& rope,
                std::optional<int> angle);

// Reads a slot back as float32. key, value: [head_dim], or empty where it is not wanted.
void read_slot(const HeadCache& head, int slot, std::span<float> key, std::span<float> value);

// Turns a slot's stored keys back by `steps` positions (re-rotation after an eviction).
void turn_back_slot(HeadCache& head, int slot, int steps, const RopeTable& rope);

// Remembers the key of `slot` as the newest ghost.
void append_ghost(HeadCache& ghosts, const HeadCache& head, int slot);

// Page `index` of a cache as the kernels see it.
PageView page_view(const HeadCache& head, int index, int live);

// Calls body(pages, first_slot) for each block of the first n_slots of a cache, in slot order.
template <class Body>
void for_each_block(const HeadCache& head, int n_slots, const Body& body) {
  for (int first = 0; first < n_slots; first += kBlockPages * kPageSlots) {
    PageView pages[kBlockPages];
    int n = 0;
    for (int slot = first; n < kBlockPages && slot < n_slots; slot += kPageSlots) {
      PageView& page = pages[n++];
      page = page_view(head, slot / kPageSlots, std::min(kPageSlots, n_slots - slot));
      if (slot + kPageSlots < n_slots)
        page.next_keys = head.pool().keys(head.pages()[slot / kPageSlots + 1]);
    }
    body(std::span<PageView>(pages, std::size_t(n)), first);
  }
}

}  // namespace kvscope::cpu
