// Which rows of a stored matrix are those of the forward pass (architecture.h).
#pragma once

#include <cstdint>
#include <vector>

#include "runner/model/architecture.h"

namespace kvscope {

// Row i of a tensor with n_out rows is row result[i] of the stored one; empty: all, as they are.
std::vector<std::int32_t> stored_rows(StoredRows kind, int n_out, const ModelConfig& config);

// Rows of the matrix that a tensor with n_out rows is stored in.
int stored_out(StoredRows kind, int n_out, const ModelConfig& config);

}  // namespace kvscope
