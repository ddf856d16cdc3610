// Which tokens a row uses, for ScanRule::Statistic::kLastUse (policies.md 2.4).
#pragma once

#include <cstdint>
#include <span>

#include "runner/policies/scan_rule.h"

namespace kvscope {

// weights: [n] of one row, group mean; positions: [n], the newest last. Sets last_use[i] of every
// used token, and of the newest, to the newest position. last_use: [n].
void mark_used(const ScanRule& rule, std::span<const float> weights,
               std::span<const std::int32_t> positions, std::span<std::uint32_t> last_use);

}  // namespace kvscope
