// What a model takes in memory, from its shape alone: known before anything is read.
#pragma once

#include <cstdint>

#include "runner/base/dtype.h"
#include "runner/model/config.h"

namespace kvscope {

// Packed weights as load_model makes them: the embedding, all matrices of all layers and the head,
// which is packed again where it is tied to the embedding. Norms (float32) included,
// biases, a few thousandths at most, not.
std::int64_t weight_bytes(const ModelConfig& config, DType dtype);

// Keys and values of one sequence with a full cache, in whole pages.
std::int64_t sequence_bytes(const ModelConfig& config, DType kv_dtype, int n_tokens);

}  // namespace kvscope
