#include "metrics/probes/sampling_plan.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "runner/base/splitmix.h"

namespace kvscope {
namespace {

constexpr int kEvery = 8;
constexpr int kBurstRows = 4;

std::vector<int> spread_layers(int n_layers) {
  std::vector<int> layers = {0, n_layers / 4, n_layers / 2, 3 * n_layers / 4, n_layers - 1};
  std::ranges::sort(layers);
  layers.erase(std::ranges::unique(layers).begin(), layers.end());
  return layers;
}

}  // namespace

bool SamplingPlan::looks_at(int layer) const {
  return layer == extra_layer || std::ranges::binary_search(layers, layer);
}

std::string SamplingPlan::text() const {
  std::string memory;
  if (ghosts.int8) memory += ", int8 ghosts";
  if (ghosts.most_copied > 0)
    memory += ", at most " + std::to_string(ghosts.most_copied) + " copied ghosts a head";
  if (is_complete()) return "all " + std::to_string(n_layers) + " layers, every step" + memory;
  const std::string text =
      "sampled, " + std::to_string(layers.size()) + " of " + std::to_string(n_layers) + " layers, ";
  if (every == 0) return text + "every step, no ghosts";
  return text + "every " + std::to_string(every) + "th step" + memory;
}

SamplingPlan complete_plan(int n_layers) {
  SamplingPlan plan;
  plan.n_layers = n_layers;
  plan.layers.resize(std::size_t(n_layers));
  std::iota(plan.layers.begin(), plan.layers.end(), 0);
  plan.every = 1;
  return plan;
}

SamplingPlan sampled_plan(int n_layers, std::uint64_t seed) {
  SamplingPlan plan = by_product_plan(n_layers);
  plan.every = kEvery;
  plan.phase = int(smix(seed) % kEvery);
  plan.burst_rows = kBurstRows;
  return plan;
}

SamplingPlan by_product_plan(int n_layers) {
  SamplingPlan plan;
  plan.n_layers = n_layers;
  plan.layers = spread_layers(n_layers);
  return plan;
}

std::uint64_t phase_seed(std::string_view input_sha256) {
  std::uint64_t seed = 0;
  const std::string_view digits = input_sha256.substr(0, 16);
  std::from_chars(digits.data(), digits.data() + digits.size(), seed, 16);
  return seed;
}

}  // namespace kvscope
