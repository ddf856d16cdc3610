#include "runner/cache/head_cache.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace kvscope {

HeadCache::HeadCache(const HeadCache& other)
    : statistic(other.statistic),
      count(other.count),
      priority(other.priority),
      rank(other.rank),
      pool_(other.pool_),
      first_page_(other.first_page_),
      pages_(other.pages_),
      positions_(other.positions_),
      kivi_(other.kivi_ == nullptr ? nullptr : std::make_unique<KiviStore>(*other.kivi_)) {
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
  std::swap(first_page_, other.first_page_);
  kivi_.swap(other.kivi_);
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
  first_page_ = 0;
  positions_.clear();
  if (kivi_ != nullptr) kivi_->clear();
  statistic.clear();
  count.clear();
  priority.clear();
  rank.clear();
}

int HeadCache::append_slot(std::int32_t position, StateInUse use) {
  const int slot = n_slots();
  if (slot == page_end()) {
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
  assert(n_slots() == page_end());
  pool_->acquire(int((positions.size() + kPageSlots - 1) / kPageSlots), pages_);
  positions_.insert(positions_.end(), positions.begin(), positions.end());
}

void HeadCache::open_slots(int most_slots, bool slots_move, StateInUse use) {
  assert(most_slots >= n_slots() && (kivi_ == nullptr || !slots_move));
  const int before = n_slots();
  for (int slot = slots_move ? 0 : before / kPageSlots * kPageSlots; slot < before;
       slot += kPageSlots)
    own_page(slot);
  const int n_pages_wanted = (most_slots + kPageSlots - 1) / kPageSlots - first_page_;
  if (n_pages() < n_pages_wanted) pool_->acquire(n_pages_wanted - n_pages(), pages_);
  const auto grow = [&](auto& values) {
    if (values.capacity() < std::size_t(most_slots)) {
      if (pool_->memory() != nullptr && !values.empty())
        pool_->memory()->wait();  // the elements move
      values.reserve(std::max<std::size_t>(2 * values.capacity(), std::size_t(most_slots)));
    }
    values.resize(std::size_t(most_slots));
  };
  grow(positions_);
  if (use.statistic) grow(statistic);
  if (use.count) grow(count);
  if (use.priority) grow(priority);
  if (use.rank) grow(rank);
}

void HeadCache::write_positions(int first_slot, std::span<const std::int32_t> positions) {
  std::copy(positions.begin(), positions.end(), positions_.begin() + first_slot);
}

void HeadCache::write_positions(int first_slot, std::int32_t first_position) {
  std::iota(positions_.begin() + first_slot, positions_.end(), first_position);
}

void HeadCache::close_slots(int n_slots_left) {
  const int n_pages_left = (n_slots_left + kPageSlots - 1) / kPageSlots - first_page_;
  while (n_pages() > n_pages_left) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
  const auto n = std::size_t(n_slots_left);
  positions_.resize(n);
  if (!statistic.empty()) statistic.resize(n);
  if (!count.empty()) count.resize(n);
  if (!priority.empty()) priority.resize(n);
  if (!rank.empty()) rank.resize(n);
}

PageId HeadCache::writable_page(int slot) {
  if (own_page(slot) && pool_->memory() != nullptr)
    pool_->memory()->wait();  // host code writes next
  return page_of(slot);
}

bool HeadCache::own_page(int slot) {
  PageId& page = pages_[slot / kPageSlots - first_page_];
  if (pool_->references(page) == 1) return false;
  const PageId copy = pool_->acquire();
  copy_bytes(pool_->memory(), pool_->keys(copy), pool_->keys(page), pool_->shape().page_bytes());
  pool_->release(page);
  page = copy;
  return true;
}

void HeadCache::remove_slot(int slot) {
  const int last = n_slots() - 1;
  assert(slot >= 0 && slot <= last);
  if (kivi_ != nullptr && slot < std::max(kivi_->n_keys(), kivi_->n_values()))
    throw std::logic_error("a slot that kivi has quantised cannot be removed");
  if (slot != last) {
    const PageId to = writable_page(slot);
    copy_slot(*pool_, page_of(last), last % kPageSlots, *pool_, to, slot % kPageSlots);
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

void HeadCache::set_kivi(const KiviOptions& options) {
  assert(n_slots() == 0 && !pool_->shape().is_quantised());
  kivi_ = std::make_unique<KiviStore>(options, pool_->shape().head_dim, pool_->memory());
}

void HeadCache::advance_quantisation() {
  if (kivi_ == nullptr) return;
  const int residual = kivi_->options().residual_tokens;
  const auto d = std::size_t(pool_->shape().head_dim);
  std::vector<float> rows;
  while (n_slots() - kivi_->n_keys() >= residual) {
    rows.resize(std::size_t(residual) * d);
    for (int i = 0; i < residual; ++i) read_key(kivi_->n_keys() + i, rows.data() + i * d);
    kivi_->add_keys(rows);
  }
  rows.resize(d);
  while (n_slots() - kivi_->n_values() > residual) {
    read_value(kivi_->n_values(), rows.data());
    kivi_->add_value(rows);
  }
  // Values go last: the keys before them are quantised already.
  const int empty = std::min(kivi_->n_keys(), kivi_->n_values()) / kPageSlots - first_page_;
  for (int i = 0; i < empty; ++i) pool_->release(pages_[i]);
  pages_.erase(pages_.begin(), pages_.begin() + empty);
  first_page_ += empty;
}

void HeadCache::read_key(int slot, float* key) const {
  if (kivi_ != nullptr && slot < kivi_->n_keys()) return kivi_->read_keys(slot, 1, key, 1);
  kvscope::read_key(*pool_, page_of(slot), slot % kPageSlots, key);
}

void HeadCache::read_value(int slot, float* value) const {
  if (kivi_ != nullptr && slot < kivi_->n_values()) return kivi_->read_values(slot, 1, value);
  kvscope::read_value(*pool_, page_of(slot), slot % kPageSlots, value);
}

std::int64_t HeadCache::logical_bytes() const {
  const auto token = std::int64_t(pool_->shape().token_bytes());
  if (kivi_ == nullptr) return n_slots() * token;
  const int whole_keys = n_slots() - kivi_->n_keys();
  const int whole_values = n_slots() - kivi_->n_values();
  return kivi_->bytes().logical_bytes + (whole_keys + whole_values) * token / 2;
}

std::int64_t HeadCache::physical_bytes() const {
  const std::int64_t in_pages = n_pages() * std::int64_t(pool_->shape().page_bytes());
  return kivi_ == nullptr ? in_pages : in_pages + kivi_->bytes().physical_bytes;
}

std::int64_t HeadCache::metadata_bytes() const {
  const auto bytes =
      std::int64_t(positions_.size() * sizeof(std::int32_t) + statistic.size() * sizeof(float) +
                   count.size() * sizeof(std::uint32_t) + priority.size() * sizeof(std::uint64_t) +
                   rank.size() * sizeof(std::int32_t) + pages_.size() * sizeof(PageId));
  return kivi_ == nullptr ? bytes : bytes + kivi_->bytes().metadata_bytes;
}

std::vector<std::int32_t> HeadCache::sorted_positions() const {
  std::vector<std::int32_t> sorted(positions_.begin(), positions_.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace kvscope
