// Models of known shapes with random weights, ready to run: what a GPU is checked with where there
// is no model file.
#pragma once

#include "runner/engine/engine.h"
#include "runner/model/random_weights.h"

namespace kvscope {

ModelConfig smollm2_shape();  // SmolLM2-135M
ModelConfig llama3_8b_shape(int n_layers = 32);
ModelConfig tiny_shape();  // milliseconds on any processor

inline constexpr std::uint64_t kCheckSeed = 20240921;

struct CheckModel {
  // backend must outlive it. Weights and cache are of `dtype`.
  CheckModel(const ModelConfig& config, DType dtype, Backend& backend);
  CheckModel(const CheckModel&) = delete;
  CheckModel& operator=(const CheckModel&) = delete;

  Model model;
  Engine engine;  // absolute positions beyond the context are allowed
};

// Any ids: what a text says does not matter. `stream` makes different ones.
std::vector<std::int32_t> check_tokens(const ModelConfig& config, int n, std::uint64_t stream);

// A policy by its text, fitted to `length` tokens. may_stream: it acts from the first token on if
// it can. permille of `full` is ignored.
std::shared_ptr<const Policy> check_policy(std::string_view policy, int permille, int length,
                                           bool may_stream);

}  // namespace kvscope
