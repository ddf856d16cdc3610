// How closely a sweep looks inside attention. Estimates from a level's sample of rows have names of
// their own (…_sampled), so that they are never paired with means over all rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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

// What is watched, and at what expense of memory.
struct ProbeOptions {
  ProbeLevel level = ProbeLevel::kOff;
  GhostMemory ghosts = {};
};
// ghosts: f32 | int8; UsageError.
ProbeOptions parse_probes(std::string_view level, std::string_view ghosts, int ghost_cap);
// The part of a plan's identity: the level, and what of the ghosts is not as by default.
std::string key_of(const ProbeOptions& probes);

// What a level looks at; nothing of kOff. seed: of the input, the same in all arms.
std::optional<SamplingPlan> plan_of(const ProbeOptions& probes, int n_layers, std::uint64_t seed);

// What of the policy probes must know. Rows count from first_counted_position on.
AttentionProbeConfig probe_config(const Policy& policy, int first_counted_position);

// Null where nothing is wanted, or no full attention over the evicted tokens is defined (full,
// positions that shift, reading without eviction). Rows count from first_counted_position on.
std::unique_ptr<SampledProbe> make_probe(const ProbeOptions& probes, const ModelConfig& model,
                                         const Policy& policy, int first_counted_position,
                                         std::uint64_t seed);

}  // namespace kvscope
