#include "runner/engine/rope_table.h"

#include <cmath>

namespace kvscope {

RopeTable make_rope_table(int head_dim, double theta, int n_positions) {
  RopeTable table{head_dim, n_positions, {}, {}};
  table.cos.resize(std::size_t(head_dim / 2) * n_positions);
  table.sin.resize(table.cos.size());
  for (int i = 0; i < head_dim / 2; ++i) {
    const auto inverse_frequency = float(1.0 / std::pow(theta, 2.0 * i / head_dim));
    for (int p = 0; p < n_positions; ++p) {
      const float angle = float(p) * inverse_frequency;
      table.cos[std::size_t(p) * (head_dim / 2) + i] = float(std::cos(double(angle)));
      table.sin[std::size_t(p) * (head_dim / 2) + i] = float(std::sin(double(angle)));
    }
  }
  return table;
}

}  // namespace kvscope
