// Rebound mass: the share of full attention that would fall on evicted tokens (policies.md 8.1).
#pragma once

namespace kvscope {

// ρ = Z_E / (Z_S + Z_E) = sigmoid(LSE_E - LSE_S), in [0, 1]. lse_ghosts = -infinity (no ghosts)
// gives exactly 0; NaN if an argument is NaN or both are infinite.
double rebound_mass(double lse_ghosts, double lse_visible);

// Mass hit = 1 - ρ (policies.md 8.2), without the cancellation of that subtraction where ρ nears 1.
double mass_hit(double lse_ghosts, double lse_visible);

}  // namespace kvscope
