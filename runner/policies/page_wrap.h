// Page granularity around any score (policies.md 2.16): tokens form pages of b in the order in
// which they stand after the prompt's cut and join later; a page leaves as a whole, lowest score
// first, ties older first. The pages of sinks and the newest page stay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/policies/page_scores.h"
#include "runner/policies/protect.h"

namespace kvscope {

struct PageWrap {
  int page_tokens = 16;
  int sink_pages = 0;
  PageReduction reduction = PageReduction::kMean;
  bool operator==(const PageWrap&) const = default;
};

// Which page each slot belongs to.
class PageMembers {
 public:
  // Slots 0 … n-1 in order fill pages from 0 on.
  void start(int n_slots, int page_tokens);
  void append(int page_tokens);  // the newest slot joins the newest page, or opens one
  void compact(std::span<const std::int32_t> old_slot_of);
  int n_slots() const { return static_cast<int>(page_of_.size()); }

  // Slots that stay, ascending. Where a page has become full since the last compact(), the lowest
  // pages leave while more than budget_tokens slots stay.
  std::vector<std::int32_t> select(const PageWrap& wrap, const Protection& protection,
                                   std::span<const float> scores,
                                   std::span<const std::int32_t> positions,
                                   int budget_tokens) const;

 private:
  bool became_full(int page_tokens) const;

  std::vector<std::int32_t> page_of_;  // [n_slots] ascending page numbers by age
  std::int32_t newest_page_ = -1;
  int newest_tokens_ = 0;
  int new_tokens_ = 0;  // since the last compact()
};

}  // namespace kvscope
