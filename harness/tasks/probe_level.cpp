#include "harness/tasks/probe_level.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runner/base/error.h"

namespace kvscope {
namespace {

struct NamedLevel {
  std::string_view name;
  ProbeLevel level;
};
constexpr std::array kLevels = {
    NamedLevel{"off", ProbeLevel::kOff}, NamedLevel{"basic", ProbeLevel::kBasic},
    NamedLevel{"full", ProbeLevel::kFull}, NamedLevel{"all", ProbeLevel::kAll}};

// Local attention over the ghosts is defined where keys keep their absolute positions; without
// eviction there are none.
bool can_probe(const Policy& policy) {
  return !policy.never_evicts() && !policy.read_rule() &&
         policy.positions() == PositionMode::kAbsolute;
}

// The first layer with the smallest budget, where that is known before the prompt's cut and no
// layer of the plan has as small a one.
std::optional<int> smallest_budget_layer(const SamplingPlan& plan, const Policy& policy,
                                         const ModelConfig& model) {
  if (policy.make_cascade() != nullptr) return std::nullopt;
  std::vector<int> budgets;
  for (int layer = 0; layer < model.n_layers; ++layer) {
    budgets.push_back(policy.unit_budget(
        {layer, 0, model.n_layers, model.n_kv_heads, model.n_heads, model.head_dim}));
  }
  const auto smallest = std::ranges::min_element(budgets);
  const auto is_smallest = [&](int layer) { return budgets[std::size_t(layer)] == *smallest; };
  if (std::ranges::any_of(plan.layers, is_smallest)) return std::nullopt;
  return int(smallest - budgets.begin());
}

}  // namespace

ProbeLevel parse_probe_level(std::string_view text) {
  const auto found = std::ranges::find(kLevels, text, &NamedLevel::name);
  if (found != kLevels.end()) return found->level;
  throw UsageError("--probe: '" + std::string(text) + "' is none of off, basic, full and all");
}

std::string_view name_of(ProbeLevel level) {
  return std::ranges::find(kLevels, level, &NamedLevel::level)->name;
}

ProbeOptions parse_probes(std::string_view level, std::string_view ghosts, int ghost_cap) {
  if (ghosts != "f32" && ghosts != "int8")
    throw UsageError("--ghosts: '" + std::string(ghosts) + "' is neither f32 nor int8");
  return {parse_probe_level(level), {ghosts == "int8", ghost_cap}};
}

std::string key_of(const ProbeOptions& probes) {
  std::string key(name_of(probes.level));
  if (probes.level < ProbeLevel::kFull) return key;
  if (probes.ghosts.int8) key += " ghosts=int8";
  if (probes.ghosts.most_copied > 0)
    key += " ghost_cap=" + std::to_string(probes.ghosts.most_copied);
  return key;
}

std::optional<SamplingPlan> plan_of(const ProbeOptions& probes, int n_layers, std::uint64_t seed) {
  SamplingPlan plan;
  switch (probes.level) {
    case ProbeLevel::kOff:
      return std::nullopt;
    case ProbeLevel::kBasic:
      return by_product_plan(n_layers);
    case ProbeLevel::kFull:
      plan = sampled_plan(n_layers, seed);
      break;
    case ProbeLevel::kAll:
      plan = complete_plan(n_layers);
      break;
  }
  plan.ghosts = probes.ghosts;
  return plan;
}

AttentionProbeConfig probe_config(const Policy& policy, int first_counted_position) {
  AttentionProbeConfig config;
  config.first_counted_position = first_counted_position;
  if (const auto rule = policy.scan_rule()) {
    config.protected_sinks = rule->sinks;
    config.protected_recent = std::max(rule->protect_last ? 1 : 0, rule->recent);
  }
  return config;
}

std::unique_ptr<SampledProbe> make_probe(const ProbeOptions& probes, const ModelConfig& model,
                                         const Policy& policy, int first_counted_position,
                                         std::uint64_t seed) {
  std::optional<SamplingPlan> plan = plan_of(probes, model.n_layers, seed);
  if (!plan || !can_probe(policy)) return nullptr;
  plan->extra_layer = smallest_budget_layer(*plan, policy, model);
  AttentionProbeConfig config = probe_config(policy, first_counted_position);
  // Rows that are far apart already are diagnosed each: every other step could miss all of them.
  if (plan->every > 1) config.diagnosis_every = 1;
  return std::make_unique<SampledProbe>(
      AttentionProbeShape{model.n_layers, model.n_kv_heads, model.group()}, config,
      *std::move(plan));
}

}  // namespace kvscope
