// Rebound events: single evicted tokens that full attention would want back (policies.md 8.1).
#pragma once

namespace kvscope {

struct ReboundRule {
  double floor = 1;  // c: in units of uniform attention 1 / |V ∪ E|
  double kappa = 2;  // times the token's mean weight before its eviction
  double rearm = 0.5;
};

// max(c / |V ∪ E|, κ·h̄). n_seen = |V ∪ E| >= 1.
inline double rebound_threshold(const ReboundRule& rule, double n_seen, double recent_mean) {
  const double floor = rule.floor / n_seen;
  const double multiple = rule.kappa * recent_mean;
  return floor > multiple ? floor : multiple;
}

// One step of one ghost. True if it fires: armed, and its weight strictly above the threshold. It
// is disarmed then until its weight falls below rearm · threshold.
inline bool rebound_step(const ReboundRule& rule, double threshold, double weight, bool& is_armed) {
  if (!is_armed) {
    is_armed = weight < rule.rearm * threshold;
    return false;
  }
  if (!(weight > threshold)) return false;
  is_armed = false;
  return true;
}

// The event also exposes a wrong choice: some evictable token in the cache weighs less than the
// ghost.
bool is_wrongful_eviction(double ghost_weight, double smallest_evictable_weight);

}  // namespace kvscope
