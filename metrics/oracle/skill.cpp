#include "metrics/oracle/skill.h"

namespace kvscope {

std::optional<double> skill(double policy_loss, double optimal_loss, double random_loss) {
  // A smaller difference of two sums of thousands of weights is their rounding.
  constexpr double kRelativeRounding = 1e-12;
  const double range = random_loss - optimal_loss;
  if (!(range > kRelativeRounding * random_loss)) return std::nullopt;
  return (random_loss - policy_loss) / range;
}

std::optional<double> regret_share(double policy_loss, double optimal_loss) {
  if (!(policy_loss > 0)) return std::nullopt;
  return regret(policy_loss, optimal_loss) / policy_loss;
}

}  // namespace kvscope
