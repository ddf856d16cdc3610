#include "metrics/probes/rebound_events.h"

namespace kvscope {

bool rebound_step(const ReboundRule& rule, double threshold, double weight, bool& is_armed) {
  if (!is_armed) {
    is_armed = weight < rule.rearm * threshold;
    return false;
  }
  if (!(weight > threshold)) return false;
  is_armed = false;
  return true;
}

bool is_wrongful_eviction(double ghost_weight, double smallest_evictable_weight) {
  return ghost_weight > smallest_evictable_weight;
}

}  // namespace kvscope
