// Which attention rows are looked at (policies.md 8.8): a few layers, and of their rows every few
// with the ghosts, so that watching costs little. A mean over such rows is an estimate: it is never
// mixed with one over all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/cache/ghost_memory.h"

namespace kvscope {

struct SamplingPlan {
  int n_layers = 0;         // of the model
  std::vector<int> layers;  // whose rows make the means, ascending
  // Of the smallest budget, where it is not among them: shown by layer, in no mean over layers, so
  // that all arms' means are over the same ones.
  std::optional<int> extra_layer;
  int every = 0;  // rows at positions t with t mod every = phase show ghosts; 0: none does
  int phase = 0;
  GhostMemory ghosts = {};
  int burst_rows = 0;  // rows with ghosts after an alarm of their head, in no mean; 0: no alarms

  bool is_complete() const { return every == 1 && int(layers.size()) == n_layers; }
  bool looks_at(int layer) const;
  bool shows_ghosts(int position) const { return every > 0 && position % every == phase; }
  // "sampled, 5 of 30 layers, every 8th step"; "all 30 layers, every step".
  std::string text() const;
};

// Every layer and step.
SamplingPlan complete_plan(int n_layers);
// Layers {0, L/4, L/2, 3L/4, L-1}, every 8th position, bursts of 4. seed: what the phase is drawn
// from (input_phase_seed); the same for all arms on one input, so that they look at the same rows.
SamplingPlan sampled_plan(int n_layers, std::uint64_t seed);
// The same layers, every row, no ghosts.
SamplingPlan by_product_plan(int n_layers);

// From a hex hash of the input: its first 16 digits.
std::uint64_t phase_seed(std::string_view input_sha256);

}  // namespace kvscope
