// Writing rows into cache slots and rotating queries and keys: the element-level side of the CPU
// cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/backend/cpu/attend_block.h"

namespace kvscope::cpu {

// out[head_dim] = x rotated to `angle` (a position or a rank), times scale. Adjacent pairs.
void rotate_row(const RopeTable& rope, const float* x, int angle, float scale, float* out);

// Writes one token's keys (rotated to *angle, or as they are) and values into an open slot. k, v:
// [head_dim].
void write_slot(HeadCache& head, int slot, const float* k, const float* v, const RopeTable& rope,
                std::optional<int> angle);

// Turns a slot's stored keys back by `steps` positions (re-rotation after an eviction).
void turn_back_slot(HeadCache& head, int slot, int steps, const RopeTable& rope);

// Remembers the key of `slot` as the newest ghost.
void append_ghost(HeadCache& ghosts, const HeadCache& head, int slot);

// Slots of the page that starts at first_slot, as float32, whatever their format: keys
// [head_dim][kPageSlots] (zero beyond `live` slots) and values [kPageSlots][head_dim] (nullptr:
// none wanted; untouched beyond).
void widen_page(const HeadCache& head, int first_slot, int live, float* keys, float* values);

// A block of pages of a cache as the kernels see them. Plain pages are shown where they lie; codes
// are dequantised to float32 into memory of this object, which the views point to until the next
// show(). A kivi block without quantised tokens is plain.
class BlockPages {
 public:
  // The pages of slots first_slot (a multiple of kPageSlots) … of the first n_slots of a cache, at
  // most kBlockPages.
  std::span<PageView> show(const HeadCache& head, int first_slot, int n_slots) {
    const int end = std::min(n_slots, first_slot + kBlockPages * kPageSlots);
    int n = 0;
    for (int slot = first_slot; slot < end; slot += kPageSlots, ++n)
      pages_[n].live = std::min(kPageSlots, n_slots - slot);
    const std::span<PageView> pages(pages_, std::size_t(n));
    if (is_plain(head, first_slot)) {
      show_plain(head, first_slot, n_slots, pages);
    } else {
      show_dequantised(head, first_slot, pages);
    }
    return pages;
  }

 private:
  static bool is_plain(const HeadCache& head, int first_slot) {
    if (head.pool().shape().is_quantised()) return false;
    const KiviStore* kivi = head.kivi();
    return kivi == nullptr || first_slot >= std::max(kivi->n_keys(), kivi->n_values());
  }
  static void show_plain(const HeadCache& head, int first_slot, int n_slots,
                         std::span<PageView> pages) {
    const PagePool& pool = head.pool();
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const int slot = first_slot + int(i) * kPageSlots;
      const PageId page = head.page_of(slot);
      const bool last = slot + kPageSlots >= n_slots;
      pages[i] = {pool.keys(page),    pool.shape().has_values ? pool.values(page) : nullptr,
                  pool.shape().dtype, false,
                  pages[i].live,      last ? nullptr : pool.keys(head.page_of(slot + kPageSlots))};
    }
  }
  void show_dequantised(const HeadCache& head, int first_slot, std::span<PageView> pages);

  PageView pages_[kBlockPages];
  std::vector<float> dequantised_;  // [kBlockPages][keys, values][head_dim · kPageSlots]
};

// Calls body(pages, first_slot) for each block of the first n_slots of a cache, in slot order, from
// the one that holds slot `from` on.
template <class Body>
void for_each_block(const HeadCache& head, int n_slots, const Body& body, int from = 0) {
  constexpr int kSlots = kBlockPages * kPageSlots;
  BlockPages block;
  for (int first = from / kSlots * kSlots; first < n_slots; first += kBlockPages * kPageSlots)
    body(block.show(head, first, n_slots), first);
}

}  // namespace kvscope::cpu
