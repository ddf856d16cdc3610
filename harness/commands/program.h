// The whole program but for what it was linked with. Each subcommand is one file beside this one;
// parsing only chooses which of them runs.
#pragma once

#include "runner/backend/cuda/cuda_backend.h"

namespace kvscope {

// Returns the exit status.
int run_kvscope(int argc, const char* const* argv, CudaSupport cuda);

}  // namespace kvscope
