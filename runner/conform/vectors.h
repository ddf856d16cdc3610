// The vectors of policy-vectors.json that the code of a policy can be held to: kept sets, and
// scores where its state shows them.
#pragma once

#include <string_view>
#include <vector>

#include "runner/conform/conformance.h"

namespace kvscope::conform {

// Those about one policy of the registry, through policies that `make` makes.
std::vector<VectorResult> run_vectors(std::string_view policy, const MakePolicy& make = fit_policy);

// All that run_vectors() knows, and all that the document has.
std::vector<std::string_view> covered_vectors();
std::vector<std::string> all_vectors();

}  // namespace kvscope::conform
