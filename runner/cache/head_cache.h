// What one (layer, KV head) of one sequence holds: slots in pages, each with its original position
// and the in-stream rule's per-slot state. Copying is a fork: pages are shared and copied when one
// side writes. The pool's page format says how slots are stored; with set_kivi() only the newest
// slots are in pages and older ones in a KiviStore, at the same slot numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runner/cache/kivi_store.h"
#include "runner/cache/page_pool.h"
#include "runner/cache/page_slots.h"

namespace kvscope {

class HeadCache {
 public:
  HeadCache() = default;
  explicit HeadCache(PagePool* pool)
      : statistic(pool->memory()),
        count(pool->memory()),
        priority(pool->memory()),
        rank(pool->memory()),
        pool_(pool),
        positions_(pool->memory()) {}
  HeadCache(const HeadCache& other);
  HeadCache(HeadCache&& other) noexcept;
  HeadCache& operator=(HeadCache other) noexcept;
  ~HeadCache();

  PagePool& pool() const { return *pool_; }
  int n_slots() const { return int(positions_.size()); }
  // Pages held, which are those of the slots from first_page() · kPageSlots on.
  int n_pages() const { return int(pages_.size()); }
  std::span<const PageId> pages() const { return pages_; }
  int first_page() const { return first_page_; }  // 0 unless kivi has emptied pages
  PageId page_of(int slot) const { return pages_[slot / kPageSlots - first_page_]; }
  std::span<const std::int32_t> positions() const {
    return positions_;
  }  // [n_slots] original position by slot

  // Per-slot state of a rule; empty unless the rule has it. Slots move, the state moves with them.
  SharedVector<float> statistic;         // [n_slots] sum, decayed sum, or last weight
  SharedVector<std::uint32_t> count;     // [n_slots] rows that saw the token
  SharedVector<std::uint64_t> priority;  // [n_slots] static random priority
  SharedVector<std::int32_t>
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
  // stored), an emptied page returns to the pool. Of kivi only slots that are still in full
  // precision: a hole in a group of quantised keys would free nothing (std::logic_error).
  void remove_slot(int slot);
  void clear();

  // For kernels that append and move slots themselves. Makes room for `most_slots` in pages and
  // arrays; the pages that will be written belong to this cache alone afterwards: all of them if
  // slots will be moved, else those from the first new slot on. Then n_slots() is most_slots until
  // close_slots() says how many there are; what the kernels wrote is to be read after
  // Backend::sync().
  void open_slots(int most_slots, bool slots_move, StateInUse use);
  void close_slots(int n_slots);
  std::int32_t* mutable_positions() { return positions_.data(); }
  // Positions of opened slots, where the host knows them: given, or consecutive up to the last.
  void write_positions(int first_slot, std::span<const std::int32_t> positions);
  void write_positions(int first_slot, std::int32_t first_position);

  // The page that holds `slot`, safe for host code to write (copied first if shared).
  PageId writable_page(int slot);

  // KIVI, before the first slot and on pages of a plain format; throws UsageError (check_kivi).
  void set_kivi(const KiviOptions& options);
  const KiviStore* kivi() const { return kivi_.get(); }  // nullptr: none
  // Quantises what is due and frees the pages it leaves: to be called once the rows that the newest
  // slots belong to have attended (to it in full precision). Nothing without kivi.
  void advance_quantisation();

  // One slot as it reads back, wherever and however it is stored: [head_dim].
  void read_key(int slot, float* key) const;
  void read_value(int slot, float* value) const;

  std::int64_t logical_bytes() const;   // what the slots take
  std::int64_t physical_bytes() const;  // pages held and kivi's blocks
  std::int64_t metadata_bytes() const;  // positions, state, tables of pages and blocks

  std::vector<std::int32_t> sorted_positions() const;

 private:
  void swap(HeadCache& other) noexcept;
  bool own_page(int slot);  // true: it was shared and is being copied
  int page_end() const { return (first_page_ + n_pages()) * kPageSlots; }  // slots that have room

  PagePool* pool_ = nullptr;
  int first_page_ = 0;
  std::vector<PageId> pages_;
  SharedVector<std::int32_t> positions_;
  std::unique_ptr<KiviStore> kivi_;
};

}  // namespace kvscope
