// What remembering evicted keys cheaply costs in certainty (policies.md 8.8): rounded to a byte an
// element, and pages of them known by their corners only.
#pragma once

#include <cstdint>
#include <span>

namespace kvscope {

// Largest error of a logit q·k/√d where k is rounded to the nearest multiple of `scale`, as
// symmetric int8 per token does: ‖q‖₁·scale / (2√d). query: [head_dim].
double int8_logit_bound(std::span<const float> query, float scale);
// Of weights then: they are off by at most this factor, e^bound.
double int8_weight_factor(std::span<const float> query, float scale);

// Largest logit that a key inside the box can have, Σ_i max(q_i·low_i, q_i·high_i) / √d. query,
// low, high: [head_dim].
double box_logit_bound(std::span<const float> query, std::span<const float> low,
                       std::span<const float> high);

// Upper bound of the rebound mass that pages of ghosts can hold, U_E = Σ n_p·e^(bound_p), against
// log Z_S of the visible set: U_E / (Z_S + U_E). Where it is below what matters, the exact pass
// over the ghosts is not needed: rebound mass never exceeds it. logit_bounds, n_tokens: [pages].
double rebound_upper_bound(std::span<const double> logit_bounds,
                           std::span<const std::int32_t> n_tokens, double lse_visible);

}  // namespace kvscope
