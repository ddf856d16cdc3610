// Did an arm do what was asked of it? Which tokens it kept, as a hash that arms can be compared by,
// and whether that many are what its budget says. A policy that evicts nothing, or another share
// than asked, otherwise looks like a policy that costs nothing, or more than it does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/store/records.h"
#include "runner/engine/ledger.h"
#include "runner/policies/policy.h"
#include "runner/policies/spec.h"

namespace kvscope {

struct KeptSetsRequest {
  const PolicySpec& spec;
  const Policy& policy;  // fitted to the sample
  // Ascending positions, [n_layers * n_kv_heads], after `tokens_seen` tokens.
  std::span<const std::vector<std::int32_t>> residents;
  int prompt_tokens = 0;  // that the cut chose from; 0: in stream
  int tokens_seen = 0;
  const Ledger& ledger;
};

// Caches that only grow after the prompt's cut are judged by what they kept of the prompt. No
// finding for arms that never were to evict (full and its storages, quest, which reads less).
KeptSets check_kept_sets(const KeptSetsRequest& request);

}  // namespace kvscope
