// A simulation as tables for people, JSON and CSV for programs.
#pragma once

#include <span>
#include <string>

#include "harness/commands/simulate_run.h"
#include "harness/report/json.h"

namespace kvscope {

std::string simulate_text(const SimulateRun& run, const TraceFacts& facts,
                          std::span<const SimulatedArm> arms, bool by_layer);
Json simulate_json(const SimulateRun& run, const TraceReader& trace,
                   std::span<const SimulatedArm> arms);
// One line an arm and layer; layer "all" is their mean.
std::string simulate_csv(const SimulateRun& run, const TraceFacts& facts,
                         std::span<const SimulatedArm> arms);

}  // namespace kvscope
