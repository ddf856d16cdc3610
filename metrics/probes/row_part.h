// One side of an attention row, the visible tokens or the ghosts, summed up in one pass: what
// entropy, shares of sinks and recent tokens, and the largest weight need (policies.md 8.5, 8.8).
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "runner/base/exp_weights.h"

namespace kvscope {

// Original positions that count, inclusive: the non-trivial variants leave out sinks and the recent
// window, which every policy keeps.
struct Universe {
  std::int32_t first = 0;
  std::int32_t last = std::numeric_limits<std::int32_t>::max();
};

struct RowPart {
  ExpSum exp;               // of the logits
  double weighted_sum = 0;  // Σ w·(z - largest), w = e^(z - largest)
  double inside_sum = 0;    // Σ w of positions inside the universe
  double before_sum = 0;    // Σ w of positions below it: the sinks
  double after_sum = 0;     // Σ w of positions above it: the recent window

  double lse() const { return exp.lse(); }
  double entropy_nats() const;  // H = LSE - Σ p·z; 0 of nothing
  double inside_share() const { return inside_sum / exp.sum; }
  double sinks_share() const { return before_sum / exp.sum; }
  double recent_share() const { return after_sum / exp.sum; }
  double largest_share() const { return 1 / exp.sum; }  // max p
};

// weights[i] = e^(logits[i] - largest), as exp_weights. logits, positions, weights: [n]. ends: the
// sums of sinks and of the recent window too.
RowPart row_part(std::span<const float> logits, std::span<const std::int32_t> positions,
                 const Universe& universe, std::span<float> weights, bool ends = true);

// H of both parts together, where `rebound` of the mass is the ghosts': H_b(ρ) + (1-ρ)·H_V + ρ·H_E.
double joint_entropy_nats(const RowPart& visible, const RowPart& ghosts, double rebound);

// H / ln n, in [0, 1]; 1 of a single token, which cannot be spread any further.
double normalised_entropy(double entropy_nats, std::size_t n);

}  // namespace kvscope
