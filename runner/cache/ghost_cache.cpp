#include "runner/cache/ghost_cache.h"

#include <algorithm>
#include <cassert>

#include "runner/cache/page_slots.h"

namespace kvscope {

void GhostCache::remember_prompt(const HeadCache& dense, std::span<const std::int32_t> kept) {
  assert(positions_.empty());
  if (!copies_prompt()) prompt_ = dense;
  std::size_t next = 0;
  for (std::int32_t position = 0; position < dense.n_slots(); ++position) {
    if (next < kept.size() && kept[next] == position) {
      ++next;
    } else if (copies_prompt()) {
      remember(dense, position);
    } else {
      positions_.push_back(position);
    }
  }
  if (!copies_prompt()) n_of_prompt_ = positions_.size();
}

void GhostCache::remember(const HeadCache& head, int slot) {
  if (most_copied_ > 0 && own_.n_slots() >= most_copied_) {
    ++n_forgotten_;
  } else {
    copy(head, slot);
  }
}

void GhostCache::copy(const HeadCache& head, int slot) {
  const int ghost = own_.append_slot(head.positions()[slot], {});
  positions_.push_back(head.positions()[slot]);
  copy_slot(head.pool(), head.page_of(slot), slot % kPageSlots, own_.pool(), own_.page_of(ghost),
            ghost % kPageSlots);
  const PageShape& shape = own_.pool().shape();
  if (!shape.is_quantised()) return;
  const float* scales = shape.scales(own_.pool().keys(own_.page_of(ghost)));
  largest_key_scale_ = std::max(largest_key_scale_, scales[ghost % kPageSlots]);
}

void GhostCache::clear() {
  prompt_.clear();
  own_.clear();
  positions_.clear();
  n_of_prompt_ = 0;
  n_forgotten_ = 0;
  largest_key_scale_ = 0;
}

std::int64_t GhostCache::physical_bytes() const {
  std::int64_t bytes = 0;
  for (const HeadCache* cache : {&prompt_, &own_}) {
    if (cache->n_pages() > 0) bytes += cache->physical_bytes();
  }
  return bytes;
}

}  // namespace kvscope
