// Scores of pages from scores of tokens, and the page that leaves, for any token score.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvscope {

enum class PageReduction { kMean, kMax, kSum };

struct PageScores {
  std::vector<float> score;                   // [n_pages]; NaN if a token's score is, 0 if empty
  std::vector<std::int32_t> oldest_position;  // [n_pages]; -1 where a page holds nothing
};

// token_scores, positions, page_of_slot: [n], any slot order; page ids in [0, n_pages), in any
// order of age (a physical page is used again).
PageScores page_scores(PageReduction reduction, std::span<const float> token_scores,
                       std::span<const std::int32_t> positions,
                       std::span<const std::int32_t> page_of_slot, int n_pages);

// The page with the lowest score, ties the older; a NaN is below everything, as in top_k. Never a
// page that holds a position < sink_tokens, never the newest page. None if no other is there.
std::optional<int> page_to_evict(const PageScores& pages, int sink_tokens);

}  // namespace kvscope
