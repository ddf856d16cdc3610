// Ada-KV's budgets of the heads of a layer, as a pure function over any score by KV head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

struct HeadBudgetOptions {
  double alpha = 0.2;      // share of the base that every head keeps for itself, 0…1
  bool normalize = false;  // weigh a head by the share of its score inside its own top `base`
};

struct HeadSelection {
  std::vector<std::vector<std::int32_t>> kept;  // [n_kv_heads], ascending prefix indices
  int nan_scores = 0;                           // among all scores
};

// What each head keeps of the prefix: n_kv_heads * min(base, n_prefix) in all, at least
// floor(alpha * base) a head. scores: [n_kv_heads][n_prefix], index = position.
// base: mean by head without the window.
HeadSelection adakv_selection(const HeadBudgetOptions& options, std::span<const float> scores,
                              int n_kv_heads, int base);

}  // namespace kvscope
