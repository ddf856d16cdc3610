// Scores that need keys (and values) but no attention, as pure functions. Sums have a fixed order.
#pragma once

#include <span>
#include <vector>

namespace kvscope {

// ‖row‖₂ of each row. rows: [n][dim] → [n]
std::vector<float> row_norms(std::span<const float> rows, int dim);

// Knorm: -‖k‖₂. keys: [n][dim] → [n]
std::vector<float> knorm_scores(std::span<const float> keys, int dim);

// Mean of the unit keys. A zero key has no direction and adds a zero vector. keys: [n][dim] → [dim]
std::vector<float> keydiff_anchor(std::span<const float> keys, int dim);

// KeyDiff: -cos(k, anchor) over the keys that are resident. Zero where the key or the anchor is
// zero: neither similar nor opposed. keys: [n][dim], as stored (post-RoPE) → [n]
std::vector<float> keydiff_scores(std::span<const float> keys, int dim);

// ‖v‖₂ / max(‖k‖₂, 1e-12): a zero key gives a large finite number, and zero where the value is zero
// too, so that means over pages stay finite. keys, values: [n][dim] → [n]
std::vector<float> value_key_norm_ratios(std::span<const float> keys, std::span<const float> values,
                                         int dim);

}  // namespace kvscope
