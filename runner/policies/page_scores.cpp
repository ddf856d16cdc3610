#include "runner/policies/page_scores.h"

#include <algorithm>
#include <cassert>

#include "runner/policies/top_k.h"

namespace kvscope {

PageScores page_scores(PageReduction reduction, std::span<const float> token_scores,
                       std::span<const std::int32_t> positions,
                       std::span<const std::int32_t> page_of_slot, int n_pages) {
  assert(token_scores.size() == positions.size() && token_scores.size() == page_of_slot.size());
  PageScores pages;
  pages.score.assign(n_pages, 0.0F);
  pages.oldest_position.assign(n_pages, -1);
  std::vector<int> tokens(n_pages, 0);
  // double: the order of a page's slots then does not show in the rounded sum.
  std::vector<double> reduced(n_pages, 0.0);
  for (std::size_t slot = 0; slot < token_scores.size(); ++slot) {
    const std::int32_t page = page_of_slot[slot];
    assert(page >= 0 && page < n_pages);
    const double value = token_scores[slot];
    std::int32_t& oldest = pages.oldest_position[page];
    if (tokens[page] == 0) {
      reduced[page] = value;
      oldest = positions[slot];
    } else {
      oldest = std::min(oldest, positions[slot]);
      if (reduction != PageReduction::kMax) {
        reduced[page] += value;
      } else if (value > reduced[page] || value != value) {  // a NaN must not hide
        reduced[page] = value;
      }
    }
    ++tokens[page];
  }
  for (int page = 0; page < n_pages; ++page) {
    const bool divides = reduction == PageReduction::kMean && tokens[page] > 0;
    pages.score[page] = static_cast<float>(divides ? reduced[page] / tokens[page] : reduced[page]);
  }
  return pages;
}

std::optional<int> page_to_evict(const PageScores& pages, int sink_tokens) {
  if (pages.oldest_position.empty()) return std::nullopt;
  const std::int32_t newest =
      *std::max_element(pages.oldest_position.begin(), pages.oldest_position.end());
  std::optional<Candidate<float>> victim;
  for (std::size_t page = 0; page < pages.score.size(); ++page) {
    const std::int32_t oldest = pages.oldest_position[page];
    if (oldest < 0 || oldest < sink_tokens || oldest == newest) continue;
    const Candidate<float> candidate{pages.score[page], oldest, static_cast<std::int32_t>(page)};
    if (!victim || ranks_before(*victim, candidate)) victim = candidate;
  }
  if (!victim) return std::nullopt;
  return victim->slot;
}

}  // namespace kvscope
