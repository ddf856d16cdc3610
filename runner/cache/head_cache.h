// What one (layer, KV head) of one sequence holds: slots in pages, each with its original position
// and the in-stream rule's per-slot state. Copying is a fork: pages are shared and copied when one
// side writes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/cache/page_pool.h"

namespace kvscope {

class HeadCache {
 public:
  HeadCache() = default;
  explicit HeadCache(PagePool* pool) : pool_(pool) {}
  HeadCache(const HeadCache& other);
  HeadCache(HeadCache&& other) noexcept;
  HeadCache& operator=(HeadCache other) noexcept;
  ~HeadCache();

  PagePool& pool() const { return *pool_; }
  int n_slots() const { return int(positions_.size()); }
  int n_pages() const { return int(pages_.size()); }
  std::span<const PageId> pages() const { return pages_; }
  std::span<const std::int32_t> positions() const {
    return positions_;
  }  // [n_slots] original position by slot

  // Per-slot state of a rule; empty unless the rule has it. Slots move, the state moves with them.
  std::vector<float> statistic;         // [n_slots] sum, decayed sum, or last weight
  std::vector<std::uint32_t> count;     // [n_slots] rows that saw the token
  std::vector<std::uint64_t> priority;  // [n_slots] static random priority
  std::vector<std::int32_t>
      rank;  // [n_slots] rank of the position among the slots (cache-relative modes)

  // Opens slot n_slots() for a token and returns it; its keys and values are to be written by the
  // caller. State arrays that are in use (non-empty, or named by `with_…`) get a zeroed entry: a
  // reused slot never inherits a counter.
  struct StateInUse {
    bool statistic = false, count = false, priority = false, rank = false;
  };
  int append_slot(std::int32_t position, StateInUse use);

  // Opens a slot for each position at the end of a cache whose pages are full or absent. Their
  // pages lie side by side, which is read faster; no state.
  void append_slots(std::span<const std::int32_t> positions);

  // Removes a slot: the last slot's contents overwrite it (order is irrelevant, positions are
  // stored), an emptied page returns to the pool.
  void remove_slot(int slot);
  void clear();

  // The page that holds `slot`, safe to write (copied first if shared).
  PageId writable_page(int slot);

  std::int64_t logical_bytes() const {
    return std::int64_t(n_slots()) * std::int64_t(pool_->shape().token_bytes());
  }
  std::int64_t physical_bytes() const {
    return std::int64_t(n_pages()) * std::int64_t(pool_->shape().page_bytes());
  }
  std::int64_t metadata_bytes() const;  // positions, state, page table

  std::vector<std::int32_t> sorted_positions() const;

 private:
  void swap(HeadCache& other) noexcept;

  PagePool* pool_ = nullptr;
  std::vector<PageId> pages_;
  std::vector<std::int32_t> positions_;
};

// Copies one slot's keys (and values, where both shapes have them) between pages of equal head_dim
// and dtype.
void copy_slot(const PagePool& from_pool, PageId from, int from_slot, const PagePool& to_pool,
               PageId to, int to_slot);

}  // namespace kvscope
