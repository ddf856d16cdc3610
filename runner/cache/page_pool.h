// Fixed-size pages of key/value slots with reference counts. Freeing is real: a page without
// references can be reused at once, and the pool knows how many pages are held.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runner/base/aligned_buffer.h"
#include "runner/base/dtype.h"
#include "runner/cache/kv_format.h"

namespace kvscope {

inline constexpr int kPageSlots = 32;

using PageId = std::int32_t;

// One page of one KV head: keys transposed [head_dim][kPageSlots] so that a query meets 32 keys at
// once, then (if has_values) values [kPageSlots][head_dim]. bf16 pages lie in pairs, as two-product
// instructions want them: keys [head_dim / 2][kPageSlots][2 dimensions], values [kPageSlots /
// 2][head_dim][2 slots]. Quantised pages hold one byte an element in the unpaired order, keys and
// values each followed by a float32 scale a slot [kPageSlots].
struct PageShape {
  int head_dim = 0;
  DType dtype = DType::kF32;  // of plain pages; quantised ones are read as float32
  bool has_values = true;     // false: ghosts, of which only keys are remembered
  KvFormat format = KvFormat::kPlain;

  bool is_quantised() const { return format != KvFormat::kPlain; }
  std::size_t stored_bytes() const { return is_quantised() ? 1 : element_bytes(dtype); }
  bool stored_like(const PageShape& other) const {
    return format == other.format && (is_quantised() || dtype == other.dtype);
  }
  std::size_t key_bytes() const {  // values take as much
    const std::size_t scales = is_quantised() ? kPageSlots * sizeof(float) : 0;
    return std::size_t(head_dim) * kPageSlots * stored_bytes() + scales;
  }
  // Where dimension i of a slot's key or value is, in elements from the keys' or values' start.
  std::size_t key_index(int i, int slot) const {
    if (!in_pairs()) return std::size_t(i) * kPageSlots + slot;
    return (std::size_t(i / 2) * kPageSlots + slot) * 2 + i % 2;
  }
  std::size_t value_index(int slot, int i) const {
    if (!in_pairs()) return std::size_t(slot) * head_dim + i;
    return (std::size_t(slot / 2) * head_dim + i) * 2 + slot % 2;
  }
  // Of quantised keys or values that start at base: [kPageSlots].
  float* scales(std::byte* base) const {
    return reinterpret_cast<float*>(base + std::size_t(head_dim) * kPageSlots);
  }
  const float* scales(const std::byte* base) const {
    return reinterpret_cast<const float*>(base + std::size_t(head_dim) * kPageSlots);
  }
  std::size_t page_bytes() const { return has_values ? 2 * key_bytes() : key_bytes(); }
  std::size_t token_bytes() const {
    return page_bytes() / kPageSlots;
  }  // one slot's keys and values

  bool in_pairs() const { return dtype == DType::kBF16 && !is_quantised(); }
};

class PagePool {
 public:
  explicit PagePool(PageShape shape, Memory* memory = nullptr);  // memory: of the pages

  Memory* memory() const { return memory_; }
  const PageShape& shape() const { return shape_; }
  PageId acquire();  // one reference; contents are stale but initialised. Thread-safe.
  void acquire(int n, std::vector<PageId>& pages);  // n more, side by side as far as there are such
  void retain(PageId page);                         // thread-safe
  void release(PageId page);                        // thread-safe
  int references(PageId page) const { return references_of(page).load(std::memory_order_acquire); }
  std::byte* keys(PageId page) const {
    return blocks_[std::size_t(page) / kBlockPages].bytes.data() +
           (std::size_t(page) % kBlockPages) * shape_.page_bytes();
  }
  std::byte* values(PageId page) const { return keys(page) + shape_.key_bytes(); }

  std::int64_t held_pages() const;  // each counted once, however many sequences share it
  std::int64_t peak_pages() const;
  void shrink();  // returns the memory to the system if no page is held

 private:
  static constexpr int kBlockPages = 256;
  static constexpr std::size_t kMaxBlocks = std::size_t(1) << 18;  // 67 million pages
  PageShape shape_;
  Memory* memory_ = nullptr;
  mutable std::mutex mutex_;
  struct Block {
    AlignedBuffer bytes;                                      // [kBlockPages][page_bytes]
    std::unique_ptr<std::atomic<std::int32_t>[]> references;  // [kBlockPages]
  };
  PageId take();  // under the lock
  std::atomic<std::int32_t>& references_of(PageId page) const {
    return blocks_[std::size_t(page) / kBlockPages].references[std::size_t(page) % kBlockPages];
  }
  std::vector<Block> blocks_;
  std::vector<PageId> free_;          // taken from the back
  std::size_t freed_since_sort_ = 0;  // how far from descending order
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace kvscope
