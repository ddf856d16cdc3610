// A baseline made of the nights before: tonight's difference to the full cache against theirs.
#pragma once

#include <vector>

#include "harness/gate/gate_run.h"

namespace kvscope {

// Samples differ from night to night, so the two means are independent: their difference has the
// standard error √(se² + se₀²) and Welch-Satterthwaite's degrees of freedom, rounded down.
// UsageError: no such arm.
std::vector<CheckResult> compare_with_nights(const GateSuite& suite, const GateCheck& check,
                                             Store& store);

}  // namespace kvscope
