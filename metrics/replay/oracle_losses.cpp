#include "metrics/replay/oracle_losses.h"

namespace kvscope {

OracleLosses oracle_losses(const DecodeAttention<float>& attention, const FutureMass& future,
                           OracleSetting setting, bool has_prompt) {
  OracleLosses losses;
  losses.step = step_oracle_lost_mass(attention, setting.budget_tokens);
  losses.optimal = lost_mass(future, optimal_schedule(future, setting));
  losses.greedy = lost_mass(future, greedy_schedule(future, setting));
  if (has_prompt) losses.prefill = lost_mass(future, prefill_schedule(future, setting));
  return losses;
}

}  // namespace kvscope
