// A ScanRule executed on a cache: the statistic of visible slots and who leaves (scan_rule.h).
#pragma once

#include <span>
#include <vector>

#include "runner/cache/head_cache.h"
#include "runner/policies/scan_rule.h"

namespace kvscope::cpu {

// probabilities: [n_query_heads][n_slots]. a = (Σ_h p_h in order) · (1 / n_query_heads), then the
// rule's update.
void update_statistic(const ScanRule& rule, std::span<const float> probabilities, int n_query_heads,
                      HeadCache& head);

// Fills `victims` (slots, in the order they were chosen) so that n_slots - victims ≤
// rule.budget_tokens.
void choose_victims(const ScanRule& rule, int newest_position, const HeadCache& head,
                    std::vector<int>& victims);

}  // namespace kvscope::cpu
