#include "runner/policies/host_policy.h"

#include <algorithm>
#include <numeric>

namespace kvscope {

ScanRule host_rule(int budget_tokens, ScanRule::Scope scope, int slot_bytes) {
  ScanRule rule;
  rule.statistic = ScanRule::Statistic::kHost;
  rule.victim = ScanRule::Victim::kLowest;
  rule.scope = scope;
  rule.budget_tokens = budget_tokens;
  rule.host_slot_bytes = slot_bytes;
  return rule;
}

void PromptReader::read(std::span<const float> all, int kv_head, int slot,
                        std::span<float> out) const {
  const std::size_t row = static_cast<std::size_t>(first_ + kv_head) * layer_.prompt_tokens + slot;
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(row * layer_.head_dim), out.size(),
              out.begin());
}

std::vector<std::int32_t> positions_up_to(int n) {
  std::vector<std::int32_t> positions(n);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

}  // namespace kvscope
