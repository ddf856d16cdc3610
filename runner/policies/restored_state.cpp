#include "runner/policies/restored_state.h"

#include <algorithm>
#include <numeric>

namespace kvscope {
namespace {

// Slots of a unit as the rule numbers them.
class FreeReader final : public SlotReader {
 public:
  FreeReader(const SlotReader* all, std::span<const std::int32_t> slots)
      : all_(all), slots_(slots) {}
  int n_kv_heads() const override { return all_->n_kv_heads(); }
  int head_dim() const override { return all_->head_dim(); }
  void read_key(int kv_head, int slot, std::span<float> out) const override {
    all_->read_key(kv_head, slots_[slot], out);
  }
  void read_value(int kv_head, int slot, std::span<float> out) const override {
    all_->read_value(kv_head, slots_[slot], out);
  }

 private:
  const SlotReader* all_;
  std::span<const std::int32_t> slots_;
};

template <typename T>
std::vector<T> of_slots(std::span<const T> values, std::span<const std::int32_t> slots) {
  std::vector<T> some;
  some.reserve(slots.size());
  for (const std::int32_t slot : slots) some.push_back(values[slot]);
  return some;
}

}  // namespace

RestoredState::RestoredState(std::unique_ptr<PolicyState> rule,
                             std::shared_ptr<const std::vector<std::int32_t>> given,
                             std::span<const std::int32_t> start)
    : rule_(std::move(rule)), given_(std::move(given)) {
  for (const std::int32_t position : start) is_given_.push_back(is_given(position));
}

RestoredState::RestoredState(const RestoredState& other)
    : PolicyState(other),
      rule_(other.rule_->clone()),
      given_(other.given_),
      is_given_(other.is_given_) {}

std::unique_ptr<PolicyState> RestoredState::clone() const {
  return std::make_unique<RestoredState>(*this);
}

bool RestoredState::is_given(std::int32_t position) const {
  return std::binary_search(given_->begin(), given_->end(), position);
}

void RestoredState::observe(const VisibleRow& row) {
  const std::size_t n = row.positions.size();
  while (is_given_.size() < n) is_given_.push_back(is_given(row.positions[is_given_.size()]));
  std::vector<std::int32_t> shown;
  for (std::size_t slot = 0; slot < n; ++slot) {
    if (!is_given_[slot] || slot + 1 == n) shown.push_back(std::int32_t(slot));
  }
  if (shown.size() == n) {
    rule_->observe(row);
  } else {
    const std::vector<std::int32_t> positions = of_slots(row.positions, shown);
    std::vector<float> probabilities;
    probabilities.reserve(row.n_query_heads * shown.size());
    for (int h = 0; h < row.n_query_heads; ++h) {
      for (const std::int32_t slot : shown)
        probabilities.push_back(row.probabilities[std::size_t(h) * n + slot]);
    }
    const FreeReader reader(row.reader, shown);
    VisibleRow seen = row;
    seen.positions = positions;
    seen.probabilities = probabilities;
    if (row.reader != nullptr) seen.reader = &reader;
    rule_->observe(seen);
  }
  if (!is_given_.back()) return;
  std::vector<std::int32_t> older(shown.size() - 1);
  std::iota(older.begin(), older.end(), 0);
  rule_->compact(older);
}

std::vector<std::int32_t> RestoredState::select(const Slots& slots) const {
  std::vector<std::int32_t> shown;
  std::vector<std::int32_t> stay;
  for (std::size_t slot = 0; slot < slots.positions.size(); ++slot)
    (is_given(slots.positions[slot]) ? stay : shown).push_back(std::int32_t(slot));
  if (shown.empty()) return stay;
  const std::vector<std::int32_t> positions = of_slots(slots.positions, shown);
  const FreeReader reader(slots.reader, shown);
  const auto kept = rule_->select({positions, slots.reader != nullptr ? &reader : nullptr});
  for (const std::int32_t slot : kept) stay.push_back(shown[slot]);
  std::sort(stay.begin(), stay.end());
  return stay;
}

void RestoredState::compact(std::span<const std::int32_t> old_slot_of) {
  std::vector<std::int32_t> shown_before(is_given_.size());  // the rule's number of an old slot
  std::int32_t n_shown = 0;
  for (std::size_t slot = 0; slot < is_given_.size(); ++slot) {
    shown_before[slot] = n_shown;
    n_shown += is_given_[slot] ? 0 : 1;
  }
  std::vector<std::int32_t> shown;
  std::vector<bool> given;
  for (const std::int32_t old : old_slot_of) {
    given.push_back(is_given_[old]);
    if (!is_given_[old]) shown.push_back(shown_before[old]);
  }
  is_given_ = std::move(given);
  rule_->compact(shown);
}

}  // namespace kvscope
