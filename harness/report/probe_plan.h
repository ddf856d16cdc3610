// What the probes of a sweep looked at: stated with every figure that comes from it.
#pragma once

#include <optional>
#include <string>

#include "harness/report/json.h"
#include "harness/store/store.h"
#include "metrics/probes/sampling_plan.h"

namespace kvscope {

// For the sweep's record. The phase, which differs from input to input, is left out.
Json probe_plan_json(const SamplingPlan& plan);

// As the sweep was started with; null: no probes, or a sweep of a program before there were plans.
Json stored_probe_plan(Store& store, const std::string& sweep_uuid);

// "rebound_mass, hit_at_32: sampled, 5 of 30 layers, every 8th step"; empty where the plan is null
// or complete.
std::string sampled_note(const Json& plan, const std::string& what);

}  // namespace kvscope
