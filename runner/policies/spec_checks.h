// Which scores, parts and modes go together.
#pragma once

#include <string>

#include "runner/policies/registry.h"
#include "runner/policies/spec.h"

namespace kvscope {

// Throws UsageError, starting with `where`, if the parsed spec asks for what cannot be.
void check_combinations(const std::string& where, const PolicyInfo& info, const PolicySpec& spec);

}  // namespace kvscope
