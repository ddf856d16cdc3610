// Attention weights of the last rows for every slot of one (layer, KV head): h̄ of policies.md 8.1
// at the moment of eviction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

// Holds rows × slots floats. A slot's mean covers the last `rows` rows, or all rows since the token
// came if those are fewer.
class WeightHistory {
 public:
  explicit WeightHistory(int rows) : rows_(std::size_t(rows)) {}

  int n_slots() const { return int(first_row_.size()); }

  // Starts slots 0 … n-1 as if each of the window's rows had given them their mean weight: later
  // rows replace those one by one.
  void start_with_means(std::span<const float> means);

  // weights: [n >= n_slots()], slot order; slots beyond n_slots() are new.
  void add_row(std::span<const float> weights);

  // 0 of a slot that no row has seen.
  double mean(int slot) const;

  // `slot` leaves and the token of `last_slot` moves into it, its history with it.
  void remove(int slot, int last_slot);

  std::int64_t bytes() const;

 private:
  void grow(std::size_t n_slots);

  std::vector<std::vector<float>> rows_;  // ring: [rows][at least the slots of that row's time]
  std::vector<std::int64_t>
      first_row_;  // [n_slots] number of the first row that counts for the slot
  std::int64_t next_row_ = 0;
};

}  // namespace kvscope
