// Where a policy stands between chance and the best schedule (policies.md 8.7). Losses are lost
// mass in the replay frame, at the same budget, timing and protection; loss(random) is its mean
// over seeds.
#pragma once

#include <optional>

namespace kvscope {

// loss(policy) - loss(O-opt): what a better choice at the same budget would have retained.
constexpr double regret(double policy_loss, double optimal_loss) {
  return policy_loss - optimal_loss;
}

// (loss(random) - loss(policy)) / (loss(random) - loss(O-opt)): 1 = oracle, 0 = chance, negative =
// harmful. Nothing where chance loses no more than the oracle.
std::optional<double> skill(double policy_loss, double optimal_loss, double random_loss);

// regret / loss(policy): from 0.5 on the wrong tokens were evicted, below it the budget itself is
// too small. Nothing where nothing was lost.
std::optional<double> regret_share(double policy_loss, double optimal_loss);

}  // namespace kvscope
