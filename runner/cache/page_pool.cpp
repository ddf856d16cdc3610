#include "runner/cache/page_pool.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace kvscope {

PagePool::PagePool(PageShape shape, Memory* memory) : shape_(shape), memory_(memory) {
  assert(shape.head_dim > 0);
  // Readers look up page addresses without the lock while other threads acquire: the table of
  // blocks must never move.
  blocks_.reserve(kMaxBlocks);
}

PageId PagePool::acquire() {
  const std::lock_guard lock(mutex_);
  return take();
}

void PagePool::acquire(int n, std::vector<PageId>& pages) {
  const std::lock_guard lock(mutex_);
  pages.reserve(pages.size() + n);
  for (int i = 0; i < n; ++i) pages.push_back(take());
}

PageId PagePool::take() {
  if (free_.empty()) {
    if (blocks_.size() == kMaxBlocks) throw std::bad_alloc();
    const auto first = PageId(blocks_.size() * kBlockPages);
    // Zeroed: lanes of slots that were never written are computed and masked, they must not be
    // traps or uninitialised reads.
    blocks_.push_back(
        {AlignedBuffer(kBlockPages * shape_.page_bytes(), AlignedBuffer::Contents::kZero, memory_),
         std::make_unique<std::atomic<std::int32_t>[]>(kBlockPages)});
    if (memory_ != nullptr) memory_->wait();  // host code may write a page next
    for (int i = kBlockPages - 1; i >= 0; --i) free_.push_back(first + i);
  }
  const PageId page = free_.back();
  free_.pop_back();
  references_of(page) = 1;
  peak_ = std::max(peak_, ++held_);
  return page;
}

void PagePool::retain(PageId page) {
  assert(references(page) > 0);
  references_of(page).fetch_add(1, std::memory_order_relaxed);
}

void PagePool::release(PageId page) {
  assert(references(page) > 0);
  if (references_of(page).fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(page);
  ++freed_since_sort_;
  if (--held_ == 0 && freed_since_sort_ > free_.size() / 4) {
    // Neighbours are given out together again.
    std::sort(free_.begin(), free_.end(), std::greater<>());
    freed_since_sort_ = 0;
  }
}

std::int64_t PagePool::held_pages() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

std::int64_t PagePool::peak_pages() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void PagePool::shrink() {
  const std::lock_guard lock(mutex_);
  if (held_ != 0) return;
  blocks_.clear();
  free_.clear();
}

}  // namespace kvscope
