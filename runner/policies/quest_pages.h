// Quest: query-aware reading of a cache that evicts nothing (Tang et al., ICML 2024,
// arXiv:2406.10774; policies.md 3).
//
//   U_p  = Σ_j max(q_j · min_{p,j}, q_j · max_{p,j})   >= max_{i in page p} q·k_i
//   read : the newest page and the budget_pages - 1 others with the largest U
//
// Needs: post-RoPE keys as they are appended; queries unscaled (1/√d changes no order).
//
// State: elementwise minimum and maximum of the keys of each page: 1/page_tokens of K and V's
// bytes.
//
// Deviations: none from the kernels (the accuracy simulator does not force the newest page). Under
// GQA each query head chooses for itself, or the group together by the maximum of its heads' U.
// One token a page gives the exact top-k of the logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

class QuestPages {
 public:
  // Of one (layer, KV head). Throws std::invalid_argument if either is below 1.
  explicit QuestPages(int head_dim, int page_tokens = 16);

  void append(std::span<const float> key);  // [head_dim] of the next token; finite

  int page_tokens() const { return page_tokens_; }
  int n_tokens() const { return n_tokens_; }
  int n_pages() const { return int(boxes_.size() / (2 * head_dim_)); }
  std::size_t metadata_bytes() const { return boxes_.size() * sizeof(float); }

  // Elementwise over the page's keys: [head_dim]
  std::span<const float> page_min(int page) const;
  std::span<const float> page_max(int page) const;

  // U of every page. Summed in the order of the dimensions: no sum of the true products in that
  // order exceeds it, rounding included. query: [head_dim], finite.
  std::vector<float> upper_bounds(std::span<const float> query) const;  // [n_pages]

  // shared=group_max: the largest U of the queries of a group, [n_queries][head_dim]
  std::vector<float> group_upper_bounds(std::span<const float> queries) const;  // [n_pages]

 private:
  std::size_t head_dim_;
  int page_tokens_;
  int n_tokens_ = 0;
  std::vector<float> boxes_;  // [n_pages][min, max][head_dim]
};

// The newest page and the budget_pages - 1 others with the largest bound, the newer of equals;
// ascending. All of them if the budget allows. Throws std::invalid_argument if budget_pages < 1.
std::vector<std::int32_t> choose_pages(std::span<const float> upper_bounds, int budget_pages);

}  // namespace kvscope
