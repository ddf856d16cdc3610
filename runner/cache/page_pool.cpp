#include "runner/cache/page_pool.h"

#include <cassert>
#include <cstring>

namespace kvscope {

PagePool::PagePool(PageShape shape) : shape_(shape) {
  assert(shape.head_dim > 0);
  // Readers look up page addresses without the lock while other threads acquire: the table of
  // blocks must never move.
  blocks_.reserve(kMaxBlocks);
}

PageId PagePool::acquire() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (blocks_.size() == kMaxBlocks) throw std::bad_alloc();
    const auto first = PageId(blocks_.size() * kBlockPages);
    // Zeroed: lanes of slots that were never written are computed and masked, they must not be
    // traps or uninitialised reads.
    blocks_.push_back(std::make_unique<std::byte[]>(kBlockPages * shape_.page_bytes()));
    references_.resize(references_.size() + kBlockPages, 0);
    for (int i = kBlockPages - 1; i >= 0; --i) free_.push_back(first + i);
  }
  const PageId page = free_.back();
  free_.pop_back();
  references_[page] = 1;
  peak_ = std::max(peak_, ++held_);
  return page;
}

void PagePool::retain(PageId page) {
  const std::lock_guard lock(mutex_);
  assert(references_[page] > 0);
  ++references_[page];
}

void PagePool::release(PageId page) {
  const std::lock_guard lock(mutex_);
  assert(references_[page] > 0);
  if (--references_[page] == 0) {
    free_.push_back(page);
    --held_;
  }
}

int PagePool::references(PageId page) const {
  const std::lock_guard lock(mutex_);
  return references_[page];
}

std::byte* PagePool::keys(PageId page) const {
  return blocks_[std::size_t(page) / kBlockPages].get() +
         (std::size_t(page) % kBlockPages) * shape_.page_bytes();
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
  references_.clear();
  free_.clear();
}

}  // namespace kvscope
