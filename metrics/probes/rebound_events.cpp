#include "metrics/probes/rebound_events.h"

namespace kvscope {

bool is_wrongful_eviction(double ghost_weight, double smallest_evictable_weight) {
  return ghost_weight > smallest_evictable_weight;
}

}  // namespace kvscope
