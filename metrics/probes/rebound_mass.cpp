#include "metrics/probes/rebound_mass.h"

#include <cmath>

namespace kvscope {

double rebound_mass(double lse_ghosts, double lse_visible) {
  return 1 / (1 + std::exp(lse_visible - lse_ghosts));
}

double mass_hit(double lse_ghosts, double lse_visible) {
  return rebound_mass(lse_visible, lse_ghosts);
}

}  // namespace kvscope
