// Which devices a list of CMake's CUDA architectures serves.
#pragma once

#include <string_view>

namespace kvscope::cuda {

// built_for: "80-real 90-real 120-virtual". Machine code runs on devices of the same major version
// whose minor one is not lower, PTX on all that are not older. compute_capability: major · 10 +
// minor.
bool runs_on(std::string_view built_for, int compute_capability);

}  // namespace kvscope::cuda
