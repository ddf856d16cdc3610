// Would other tokens in the same budget have helped, or is the budget too small? Read from one row
// without an oracle (policies.md 8.6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvscope {

struct SwapRule {
  double wanted_share = 0.8;    // q: of the rebound mass, that ghosts are needed for
  double spare_share = 0.1;     // ε: of the rebound mass, that residents may be given up for
  double least_rebound = 0.05;  // ρ_min: below, nothing was lost that matters
  double least_delta = 0.05;    // δ below: what was lost changes nothing
};

// n_q: fewest ghosts whose weights sum to q of the rebound mass.
int ghosts_needed(const SwapRule& rule, double rebound, std::span<const float> ghost_weights);

// s: how many residents that may leave, lightest first, weigh at most ε of the rebound mass
// together: slots that could be had for nothing.
int spare_slots(const SwapRule& rule, double rebound, std::span<const float> evictable_weights);

enum class SwapReading {
  kHealthy,     // little was lost, or it does not change the output
  kWrongPlace,  // n_q <= s: a swap at the same budget recovers it
  kTooMuch,     // n_q > s: it needs n_q - s tokens more
};

struct SwapDiagnosis {
  SwapReading reading = SwapReading::kHealthy;
  int ghosts_needed = 0;  // these two only unless healthy
  int spare_slots = 0;
};

// Weights are shares of full attention, a* over everything seen. evictable_weights: residents that
// the policy could have dropped. delta: output perturbation of the row, where it is known.
SwapDiagnosis diagnose_swap(const SwapRule& rule, double rebound, std::optional<double> delta,
                            std::span<const float> ghost_weights,
                            std::span<const float> evictable_weights);

}  // namespace kvscope
