#include "runner/policies/page_wrap.h"

#include <algorithm>
#include <numeric>

namespace kvscope {
namespace {

// [newest_page + 1], but for the newest, which stays in any case.
std::vector<bool> pages_with_recent(const Protection& protection,
                                    std::span<const std::int32_t> positions,
                                    std::span<const std::int32_t> page_of,
                                    std::int32_t newest_page) {
  std::vector<bool> recent(static_cast<std::size_t>(newest_page) + 1, false);
  const std::int32_t newest = *std::max_element(positions.begin(), positions.end());
  for (std::size_t slot = 0; slot < positions.size(); ++slot) {
    if (page_of[slot] != newest_page && positions[slot] > newest - protection.recent)
      recent[page_of[slot]] = true;
  }
  return recent;
}

// Of those that are neither sinks nor the newest.
std::optional<int> oldest_page(PageScores pages, int sink_tokens) {
  std::fill(pages.score.begin(), pages.score.end(), 0.0F);
  return page_to_evict(pages, sink_tokens);
}

}  // namespace

void PageMembers::start(int n_slots, int page_tokens) {
  page_of_.clear();
  newest_page_ = -1;
  newest_tokens_ = 0;
  for (int i = 0; i < n_slots; ++i) append(page_tokens);
  new_tokens_ = 0;
}

void PageMembers::append(int page_tokens) {
  if (newest_page_ < 0 || newest_tokens_ == page_tokens) {
    ++newest_page_;
    newest_tokens_ = 0;
  }
  ++newest_tokens_;
  ++new_tokens_;
  page_of_.push_back(newest_page_);
}

void PageMembers::compact(std::span<const std::int32_t> old_slot_of) {
  std::vector<std::int32_t> page_of;
  page_of.reserve(old_slot_of.size());
  for (const std::int32_t slot : old_slot_of) page_of.push_back(page_of_[slot]);
  page_of_ = std::move(page_of);
  new_tokens_ = 0;
}

// Several rows may have joined: then it need not be the last of them that filled a page.
bool PageMembers::became_full(int page_tokens) const {
  if (new_tokens_ == 0) return false;
  return newest_tokens_ == page_tokens || newest_tokens_ < new_tokens_;
}

std::vector<std::int32_t> PageMembers::select(const PageWrap& wrap, const Protection& protection,
                                              std::span<const float> scores,
                                              std::span<const std::int32_t> positions,
                                              int budget_tokens) const {
  std::vector<std::int32_t> keep(page_of_.size());
  std::iota(keep.begin(), keep.end(), 0);
  if (!became_full(wrap.page_tokens)) return keep;
  PageScores pages = page_scores(wrap.reduction, scores, positions, page_of_, newest_page_ + 1);
  const std::vector<bool> recent = pages_with_recent(protection, positions, page_of_, newest_page_);
  const int sinks = std::max(wrap.sink_pages * wrap.page_tokens, protection.sinks);
  while (static_cast<int>(keep.size()) > budget_tokens) {
    // Recent tokens are protected as long as others can leave.
    PageScores others = pages;
    for (std::size_t page = 0; page < recent.size(); ++page) {
      if (recent[page]) others.oldest_position[page] = -1;
    }
    auto victim = page_to_evict(others, sinks);
    if (!victim) victim = oldest_page(pages, sinks);
    if (!victim) break;
    pages.oldest_position[*victim] = -1;
    std::erase_if(keep, [&](std::int32_t slot) { return page_of_[slot] == *victim; });
  }
  return keep;
}

}  // namespace kvscope
