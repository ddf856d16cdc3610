// What eviction could have done with the future known (policies.md 8.7), for one (layer, KV head).
//
//   loss(O-step) <= loss(O-opt) <= loss(O-greedy), and loss(O-opt) <= loss(policy)
//
// for every eviction policy with the same budget, timing and protection. All of them bound the
// attention mass of the full run that is retained, not the accuracy of a task.
#pragma once

#include "metrics/oracle/schedule.h"

namespace kvscope {

struct OracleSetting {
  int budget_tokens = 1;     // B >= 1: resident after every eviction
  bool protect_last = true;  // the newest token cannot leave right after its own row
};

// O-step: every decode row sees itself and the B others it weighs most, chosen afresh: a bound for
// retrieval (Quest), not a schedule. Throws like check_attention.
template <class Weight>  // float or double
double step_oracle_lost_mass(const DecodeAttention<Weight>& attention, int budget_tokens);

// O-opt: the schedule of least lost mass; by row, then token. Exact up to rounding in double.
Schedule optimal_schedule(const FutureMass& future, OracleSetting setting);

// O-greedy: at each event the residents with the least R; of equals the older leaves. By row, then
// token.
Schedule greedy_schedule(const FutureMass& future, OracleSetting setting);

// O-prefill: keeps the top B by R at the prompt's end and evicts nothing afterwards: the bound for
// one-shot methods whose cache then grows.
Schedule prefill_schedule(const FutureMass& future, OracleSetting setting);

}  // namespace kvscope
