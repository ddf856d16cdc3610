// Tokens that a selection may not drop, and the selection among the others.
#pragma once

#include <cstdint>
#include <span>

#include "runner/policies/top_k.h"

namespace kvscope {

struct Protection {
  int sinks = 0;     // original positions < sinks
  int recent = 0;    // positions > newest - recent
  bool last = true;  // the newest position
};

bool is_protected(const Protection& protection, std::int32_t position, std::int32_t newest);

// Slots that stay: all if at most `budget` are there; else the protected ones and the best of the
// others by `scores`. If more than `budget` are protected, the newest of them (policies.md 1.4); a
// fitted policy never asks for that. positions: [n] original position by slot, any order, distinct.
// scores: [n]; those of protected slots are not read.
template <class Score>
TopK keep_protected_and_best(const Protection& protection, std::span<const std::int32_t> positions,
                             std::span<const Score> scores, int budget);

}  // namespace kvscope
