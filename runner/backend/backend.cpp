#include "runner/backend/backend.h"

#include <algorithm>

namespace kvscope {

ReadRows rows_of(std::span<const float> weights, int n_in) {
  return [weights, n_in](int first, int n, float* out) {
    const auto rows = weights.subspan(std::size_t(first) * n_in, std::size_t(n) * n_in);
    std::copy(rows.begin(), rows.end(), out);
  };
}

}  // namespace kvscope
