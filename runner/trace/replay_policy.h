// Which policies a replay is defined for, and fitting them to a trace.
#pragma once

#include <memory>

#include "runner/policies/spec.h"
#include "runner/trace/trace.h"

namespace kvscope {

// The policy with absolute positions whatever the spec says: a replay shows every policy the full
// run's attention, re-normalised over what is visible (policies.md 1.9). Throws UsageError for what
// changes attention itself or evicts nothing (storage, sparse prompts, page selection), for totals
// over layers that were not all recorded, and as fit_policy().
std::shared_ptr<const Policy> fit_replay_policy(PolicySpec spec, const FitRequest& request,
                                                const TraceFacts& facts);

}  // namespace kvscope
