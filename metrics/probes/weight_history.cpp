#include "metrics/probes/weight_history.h"

#include <algorithm>

namespace kvscope {

void WeightHistory::grow(std::size_t n_slots) {
  if (n_slots <= first_row_.size()) return;
  first_row_.resize(n_slots, next_row_);
  if (rows_.front().size() >= n_slots) return;
  const std::size_t capacity = std::max(n_slots, rows_.front().size() + rows_.front().size() / 4);
  for (std::vector<float>& row : rows_) row.resize(capacity);
}

void WeightHistory::start_with_means(std::span<const float> means) {
  next_row_ = std::ssize(rows_);
  first_row_.assign(means.size(), 0);
  for (std::vector<float>& row : rows_) row.assign(means.begin(), means.end());
}

void WeightHistory::add_row(std::span<const float> weights) {
  grow(weights.size());
  std::copy(weights.begin(), weights.end(),
            rows_[std::size_t(next_row_ % std::ssize(rows_))].begin());
  ++next_row_;
}

double WeightHistory::mean(int slot) const {
  if (slot >= n_slots()) return 0;
  // Rows before first_row_ belong to an earlier tenant of the slot.
  const std::int64_t first = std::max(first_row_[std::size_t(slot)], next_row_ - std::ssize(rows_));
  if (first >= next_row_) return 0;
  double sum = 0;
  for (std::int64_t row = first; row < next_row_; ++row) {
    sum += double(rows_[std::size_t(row % std::ssize(rows_))][std::size_t(slot)]);
  }
  return sum / double(next_row_ - first);
}

void WeightHistory::remove(int slot, int last_slot) {
  grow(std::size_t(last_slot) + 1);
  if (slot != last_slot) {
    for (std::vector<float>& row : rows_) row[std::size_t(slot)] = row[std::size_t(last_slot)];
    first_row_[std::size_t(slot)] = first_row_[std::size_t(last_slot)];
  }
  first_row_.resize(std::size_t(last_slot));
}

std::int64_t WeightHistory::bytes() const {
  std::int64_t total = std::int64_t(first_row_.capacity() * sizeof(std::int64_t));
  for (const std::vector<float>& row : rows_) total += std::int64_t(row.capacity() * sizeof(float));
  return total;
}

}  // namespace kvscope
