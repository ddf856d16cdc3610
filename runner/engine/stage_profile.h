// Where a model's time goes on a backend: one dense prefill and some decode steps, as an evaluation
// runs them, with every backend stage metered.
#pragma once

#include <string>
#include <vector>

#include "runner/backend/metered_backend.h"
#include "runner/model/model.h"

namespace kvscope {

struct ProfileOptions {
  int prompt_tokens = 512;  // fewer where the model's context is shorter
  int decode_steps = 16;
  std::vector<int> decode_rows = {1, 32};  // one phase each; rows continue copies of the prompt
};

struct ProfilePhase {
  bool is_prefill = false;
  int rows = 0;   // tokens that pass the layers together
  int steps = 0;  // times that they do
  double seconds = 0.0;
  std::vector<StageCounter> stages;  // by first use

  double tokens_per_second() const { return double(rows) * steps / seconds; }
  double seconds_outside_stages() const;  // greedy choice, bookkeeping
};

// `model` was loaded on `backend`. Each phase runs once before it is measured: first uses allocate.
std::vector<ProfilePhase> profile_stages(const Model& model, Backend& backend,
                                         const ProfileOptions& options);

// "embed"; a product is named after the model's matrices of its shape: "qkv", "output", "gate_up",
// "down", "head", or several, "output+down".
std::string stage_name(const Model& model, const StageCounter& counter);

}  // namespace kvscope
