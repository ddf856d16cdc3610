// Planted defects of the kinds that policies.md and its peers' code have. Each must be caught by a
// vector, property or relation; one that is not means that the checks are too weak.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/conform/conformance.h"

namespace kvscope::conform {

struct Mutant {
  std::string_view name;    // what is wrong, one line
  std::string_view source;  // where such a defect was seen
  std::string_view policy;  // of the registry: what it is planted in
  PolicyPtr (*make)(const PolicySpec&, const FitRequest&);
};

// Of one policy, or of all where the name is empty.
std::vector<Mutant> mutants(std::string_view policy = {});

struct MutantResult {
  Mutant mutant;
  std::string caught_by;  // empty: it was not
};
MutantResult run_mutant(const Mutant& mutant, const CheckOptions& options = {});

// The parts of the table.
std::span<const Mutant> state_mutants();
std::span<const Mutant> budget_mutants();
std::span<const Mutant> score_mutants();

}  // namespace kvscope::conform
