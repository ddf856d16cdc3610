#include "runner/conform/mutants.h"

namespace kvscope::conform {

std::vector<Mutant> mutants(std::string_view policy) {
  std::vector<Mutant> all;
  for (const auto table : {state_mutants(), budget_mutants(), score_mutants()}) {
    for (const Mutant& mutant : table) {
      if (policy.empty() || mutant.policy == policy) all.push_back(mutant);
    }
  }
  return all;
}

MutantResult run_mutant(const Mutant& mutant, const CheckOptions& options) {
  return {mutant, first_failure(*find_policy(mutant.policy), options, mutant.make)};
}

}  // namespace kvscope::conform
