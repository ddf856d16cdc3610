#include "runner/policies/last_use.h"

#include "runner/policies/top_k.h"

namespace kvscope {

void mark_used(const ScanRule& rule, std::span<const float> weights,
               std::span<const std::int32_t> positions, std::span<std::uint32_t> last_use) {
  const auto n = static_cast<int>(positions.size());
  const auto now = static_cast<std::uint32_t>(positions.back());
  last_use[n - 1] = now;
  if (rule.threshold > 0.0F) {
    const float bar = use_bar(rule, n);
    for (int i = 0; i < n; ++i) {
      if (weights[i] >= bar) last_use[i] = now;
    }
    return;
  }
  std::vector<Candidate<float>> candidates;
  candidates.reserve(positions.size());
  for (int i = 0; i < n; ++i) candidates.push_back({weights[i], positions[i], i});
  for (const std::int32_t slot : top_k(std::move(candidates), used_top_k(rule, n)).slots) {
    last_use[slot] = now;
  }
}

}  // namespace kvscope
