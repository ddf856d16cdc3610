// How closely a sweep looks inside attention. Estimates from a level's sample of rows have names of
// their own (…_sampled), so that they are never paired with means over all rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "metrics/probes/sampled_probe.h"
#include "runner/model/config.h"
#include "runner/policies/policy.h"

namespace kvscope {

enum class ProbeLevel : std::uint8_t {
  kOff,    // nothing
  kBasic,  // what attention gives away by itself, in a few layers
  kFull,   // and evicted tokens, every few steps of these layers (policies.md 8.8)
  kAll,    // everything in every layer and step
};
inline constexpr const char* kDefaultProbeLevel = "full";

ProbeLevel parse_probe_level(std::string_view text);  // off | basic | full | all; UsageError
std::string_view name_of(ProbeLevel level);

// What a level looks at; nothing of kOff. seed: of the input, the same in all arms.
std::optional<SamplingPlan> plan_of(ProbeLevel level, int n_layers, std::uint64_t seed);

// Null where nothing is wanted, or no full attention over the evicted tokens is defined (full,
// positions that shift, reading without eviction). Rows count from first_counted_position on.
std::unique_ptr<SampledProbe> make_probe(ProbeLevel level, const ModelConfig& model,
                                         const Policy& policy, int first_counted_position,
                                         std::uint64_t seed);

}  // namespace kvscope
