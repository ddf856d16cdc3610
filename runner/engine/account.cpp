#include "runner/engine/account.h"

#include <algorithm>

namespace kvscope {

std::int64_t slot_metadata_bytes(const ScanRule& rule, PositionMode positions, bool first_of_unit) {
  std::int64_t bytes = sizeof(std::int32_t);                                // position
  if (positions != PositionMode::kAbsolute) bytes += sizeof(std::int32_t);  // rank
  if (!rule.evicts() || !first_of_unit) return bytes;
  return bytes + slot_state_bytes(rule);
}

KvBytes Account::bytes_of(const PageShape& shape, std::int64_t slots, std::int64_t pages,
                          std::int64_t slot_metadata) {
  return {slots * std::int64_t(shape.token_bytes()), pages * std::int64_t(shape.page_bytes()),
          slots * slot_metadata + pages * std::int64_t(sizeof(PageId))};
}

void Account::add(KvBytes& to, const KvBytes& x) {
  to.logical_bytes += x.logical_bytes;
  to.physical_bytes += x.physical_bytes;
  to.metadata_bytes += x.metadata_bytes;
}

void Account::prompt_layer(int prompt_tokens, int n_kv_heads, bool two_pass,
                           const HeadCache* kept) {
  const std::int64_t pages = (prompt_tokens + kPageSlots - 1) / kPageSlots;
  const KvBytes dense = bytes_of(dense_shape_, std::int64_t(prompt_tokens) * n_kv_heads,
                                 pages * n_kv_heads, sizeof(std::int32_t));
  KvBytes now = two_pass ? dense_ : kept_;
  add(now, dense);
  prompt_peak_ = peak_of(prompt_peak_, now);
  add(dense_, dense);
  peak_visible_ = std::max<std::int64_t>(peak_visible_, prompt_tokens);
  for (int h = 0; h < n_kv_heads; ++h) {
    add(kept_, {kept[h].logical_bytes(), kept[h].physical_bytes(), kept[h].metadata_bytes()});
    kept_slots_ += kept[h].n_slots();
    peak_resident_ = std::max<std::int64_t>(peak_resident_, kept[h].n_slots());
  }
}

void Account::kept_so_far(std::span<const HeadCache> heads) {
  kept_ = {};
  kept_slots_ = 0;
  for (const HeadCache& head : heads) {
    add(kept_, {head.logical_bytes(), head.physical_bytes(), head.metadata_bytes()});
    kept_slots_ += head.n_slots();
  }
}

void Account::rows(std::size_t first_row, std::span<const StepSlots> steps,
                   std::int64_t slot_metadata) {
  const std::size_t end = first_row + steps.size();
  if (visible_.size() < end) {
    visible_.resize(end);
    resident_.resize(end);
    resident_slots_.resize(end);
  }
  for (std::size_t r = 0; r < steps.size(); ++r) {
    const StepSlots& s = steps[r];
    add(visible_[first_row + r], bytes_of(shape_, s.visible_slots, s.visible_pages, slot_metadata));
    add(resident_[first_row + r],
        bytes_of(shape_, s.resident_slots, s.resident_pages, slot_metadata));
    add(visible_[first_row + r], s.visible_beyond);
    add(resident_[first_row + r], s.resident_beyond);
    resident_slots_[first_row + r] += s.resident_slots;
    peak_visible_ = std::max<std::int64_t>(peak_visible_, s.visible_slots);
    peak_resident_ = std::max<std::int64_t>(peak_resident_, s.resident_slots);
  }
}

void Account::growing_rows(std::size_t first_row, int first_slots, int n_rows, int n_heads,
                           std::int64_t slot_metadata) {
  std::vector<StepSlots> steps(n_rows);
  for (int r = 0; r < n_rows; ++r) {
    const int slots = first_slots + r + 1;
    const int pages = (slots + kPageSlots - 1) / kPageSlots;
    steps[r] = {slots, pages, slots, pages};
  }
  for (int h = 0; h < n_heads; ++h) rows(first_row, steps, slot_metadata);
}

Ledger Account::finish(std::size_t prefill_rows, int n_heads, int tokens_seen) const {
  Ledger ledger;
  ledger.prefill_peak = prompt_peak_;
  for (std::size_t r = 0; r < visible_.size(); ++r) {
    KvBytes& peak = r < prefill_rows ? ledger.prefill_peak : ledger.decode_peak;
    peak = peak_of(peak, visible_[r]);
  }
  for (std::size_t r = prefill_rows; r < resident_.size(); ++r) {
    ledger.bytes_by_row.push_back(resident_[r].total_bytes());
  }
  ledger.steady = resident_.empty() ? kept_ : resident_.back();
  const std::int64_t resident = resident_slots_.empty() ? kept_slots_ : resident_slots_.back();
  ledger.ghost_peak_bytes = ghost_bytes_;
  ledger.peak_resident_tokens = peak_resident_;
  ledger.peak_visible_tokens = peak_visible_;
  ledger.evicted_tokens = std::int64_t(tokens_seen) * n_heads - resident;
  ledger.mean_resident_tokens = double(resident) / n_heads;
  return ledger;
}

}  // namespace kvscope
