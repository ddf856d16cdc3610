// One row of attention over some of a cache's slots (selection without eviction, sparse prompts).
#pragma once

#include <span>
#include <vector>

#include "runner/backend/cpu/attend_block.h"
#include "runner/cache/head_cache.h"
#include "runner/policies/minference_index.h"

namespace kvscope::cpu {

// The softmax runs over `slots` alone: ascending ranges within logits, at least one slot.
// logits: [n_slots] of the row over all slots; out: [head_dim]; scratch: any.
//
// Not the arithmetic of attend_block: a selection that holds every slot is to be run by that.
void attend_selected(const HeadCache& head, std::span<const float> logits,
                     std::span<const KeyRange> slots, std::span<float> out,
                     std::vector<float>& scratch);

// Takes slots before first_seen out of `slots`.
void keep_seen(std::vector<KeyRange>& slots, int first_seen);

}  // namespace kvscope::cpu
