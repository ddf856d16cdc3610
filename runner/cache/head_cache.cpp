#include "runner/cache/head_cache.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace kvscope {

HeadCache::HeadCache(const HeadCache& other)
    : statistic(other.statistic),
      count(other.count),
      priority(other.priority),
      rank(other.rank),
      pool_(other.pool_),
      pages_(other.pages_),
      positions_(other.positions_) {
  for (const PageId page : pages_) pool_->retain(page);
}

HeadCache::HeadCache(HeadCache&& other) noexcept { swap(other); }

HeadCache& HeadCache::operator=(HeadCache other) noexcept {
  swap(other);
  return *this;
}

HeadCache::~HeadCache() { clear(); }

void HeadCache::swap(HeadCache& other) noexcept {
  std::swap(pool_, other.pool_);
  pages_.swap(other.pages_);
  positions_.swap(other.positions_);
  statistic.swap(other.statistic);
  count.swap(other.count);
  priority.swap(other.priority);
  rank.swap(other.rank);
}

void HeadCache::clear() {
  for (const PageId page : pages_) pool_->release(page);
  pages_.clear();
  positions_.clear();
  statistic.clear();
  count.clear();
  priority.clear();
  rank.clear();
}

int HeadCache::append_slot(std::int32_t position, StateInUse use) {
  const int slot = n_slots();
  if (slot == n_pages() * kPageSlots) {
    pages_.push_back(pool_->acquire());
  } else {
    writable_page(slot);
  }
  positions_.push_back(position);
  if (use.statistic) statistic.push_back(0.0F);
  if (use.count) count.push_back(0);
  if (use.priority) priority.push_back(0);
  if (use.rank) rank.push_back(0);
  return slot;
}

void HeadCache::append_slots(std::span<const std::int32_t> positions) {
  assert(n_slots() == n_pages() * kPageSlots);
  pool_->acquire(int((positions.size() + kPageSlots - 1) / kPageSlots), pages_);
  positions_.insert(positions_.end(), positions.begin(), positions.end());
}

PageId HeadCache::writable_page(int slot) {
  PageId& page = pages_[slot / kPageSlots];
  if (pool_->references(page) > 1) {
    const PageId copy = pool_->acquire();
    std::memcpy(pool_->keys(copy), pool_->keys(page), pool_->shape().page_bytes());
    pool_->release(page);
    page = copy;
  }
  return page;
}

void HeadCache::remove_slot(int slot) {
  const int last = n_slots() - 1;
  assert(slot >= 0 && slot <= last);
  if (slot != last) {
    const PageId to = writable_page(slot);
    copy_slot(*pool_, pages_[last / kPageSlots], last % kPageSlots, *pool_, to, slot % kPageSlots);
    positions_[slot] = positions_[last];
  }
  const auto drop = [&](auto& state) {
    if (state.empty()) return;
    state[slot] = state[last];
    state.pop_back();
  };
  positions_.pop_back();
  drop(statistic);
  drop(count);
  drop(priority);
  drop(rank);
  if (last % kPageSlots == 0) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

std::int64_t HeadCache::metadata_bytes() const {
  return std::int64_t(positions_.size() * sizeof(std::int32_t) + statistic.size() * sizeof(float) +
                      count.size() * sizeof(std::uint32_t) +
                      priority.size() * sizeof(std::uint64_t) + rank.size() * sizeof(std::int32_t) +
                      pages_.size() * sizeof(PageId));
}

std::vector<std::int32_t> HeadCache::sorted_positions() const {
  std::vector<std::int32_t> sorted(positions_);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

namespace {

template <typename Element>
void copy_slot_of(const PagePool& from_pool, PageId from, int from_slot, const PagePool& to_pool,
                  PageId to, int to_slot) {
  const PageShape& shape = from_pool.shape();
  const int head_dim = shape.head_dim;
  const auto* from_keys = reinterpret_cast<const Element*>(from_pool.keys(from));
  auto* to_keys = reinterpret_cast<Element*>(to_pool.keys(to));
  for (int i = 0; i < head_dim; ++i) {
    to_keys[shape.key_index(i, to_slot)] = from_keys[shape.key_index(i, from_slot)];
  }
  if (from_pool.shape().has_values && to_pool.shape().has_values) {
    const auto* from_values = reinterpret_cast<const Element*>(from_pool.values(from));
    auto* to_values = reinterpret_cast<Element*>(to_pool.values(to));
    for (int i = 0; i < head_dim; ++i) {
      to_values[shape.value_index(to_slot, i)] = from_values[shape.value_index(from_slot, i)];
    }
  }
}

}  // namespace

void copy_slot(const PagePool& from_pool, PageId from, int from_slot, const PagePool& to_pool,
               PageId to, int to_slot) {
  assert(from_pool.shape().head_dim == to_pool.shape().head_dim);
  assert(from_pool.shape().dtype == to_pool.shape().dtype);
  if (element_bytes(from_pool.shape().dtype) == 4) {
    copy_slot_of<std::uint32_t>(from_pool, from, from_slot, to_pool, to, to_slot);
  } else {
    copy_slot_of<std::uint16_t>(from_pool, from, from_slot, to_pool, to, to_slot);
  }
}

}  // namespace kvscope
