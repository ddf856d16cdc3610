#include "runner/policies/page_wrap.h"

#include <algorithm>
#include <numeric>

namespace kvscope {

void PageMembers::start(int n_slots, int page_tokens) {
  page_of_.clear();
  newest_page_ = -1;
  newest_tokens_ = 0;
  for (int i = 0; i < n_slots; ++i) append(page_tokens);
}

void PageMembers::append(int page_tokens) {
  if (newest_page_ < 0 || newest_tokens_ == page_tokens) {
    ++newest_page_;
    newest_tokens_ = 0;
  }
  ++newest_tokens_;
  page_of_.push_back(newest_page_);
}

void PageMembers::compact(std::span<const std::int32_t> old_slot_of) {
  std::vector<std::int32_t> page_of;
  page_of.reserve(old_slot_of.size());
  for (const std::int32_t slot : old_slot_of) page_of.push_back(page_of_[slot]);
  page_of_ = std::move(page_of);
}

std::vector<std::int32_t> PageMembers::select(const PageWrap& wrap, std::span<const float> scores,
                                              std::span<const std::int32_t> positions,
                                              int budget_tokens) const {
  std::vector<std::int32_t> keep(page_of_.size());
  std::iota(keep.begin(), keep.end(), 0);
  if (!newest_is_full(wrap.page_tokens)) return keep;
  while (static_cast<int>(keep.size()) > budget_tokens) {
    std::vector<float> kept_scores;
    std::vector<std::int32_t> kept_positions;
    std::vector<std::int32_t> kept_pages;
    for (const std::int32_t slot : keep) {
      kept_scores.push_back(scores[slot]);
      kept_positions.push_back(positions[slot]);
      kept_pages.push_back(page_of_[slot]);
    }
    const auto victim = page_to_evict(
        page_scores(wrap.reduction, kept_scores, kept_positions, kept_pages, newest_page_ + 1),
        wrap.sink_pages * wrap.page_tokens);
    if (!victim) break;
    std::erase_if(keep, [&](std::int32_t slot) { return page_of_[slot] == *victim; });
  }
  return keep;
}

}  // namespace kvscope
