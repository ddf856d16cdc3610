#include "runner/engine/rope_table.h"

#include <cmath>

namespace kvscope {

RopeTable make_rope_table(int head_dim, double theta, int n_positions) {
  RopeTable table{head_dim, n_positions, {}, {}, {}, {}};
  table.cos.resize(std::size_t(head_dim / 2) * n_positions);
  table.sin.resize(table.cos.size());
  table.cos_by_pair.resize(table.cos.size());
  table.sin_by_pair.resize(table.cos.size());
  for (int i = 0; i < head_dim / 2; ++i) {
    const auto inverse_frequency = float(1.0 / std::pow(theta, 2.0 * i / head_dim));
    for (int p = 0; p < n_positions; ++p) {
      const float angle = float(p) * inverse_frequency;
      const std::size_t row = std::size_t(p) * (head_dim / 2) + i;
      const std::size_t column = std::size_t(i) * n_positions + p;
      table.cos[row] = table.cos_by_pair[column] = float(std::cos(double(angle)));
      table.sin[row] = table.sin_by_pair[column] = float(std::sin(double(angle)));
    }
  }
  return table;
}

}  // namespace kvscope
