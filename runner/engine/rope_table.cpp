#include "runner/engine/rope_table.h"

#include <cmath>

namespace kvscope {

RopeTable make_rope_table(int head_dim, double theta, int n_positions, Memory* memory) {
  RopeTable table{
      head_dim, n_positions, SharedVector<float>(memory), SharedVector<float>(memory), {}, {}, {}};
  table.cos.resize(std::size_t(head_dim / 2) * n_positions);
  table.sin.resize(table.cos.size());
  table.cos_by_pair.resize(table.cos.size());
  table.sin_by_pair.resize(table.cos.size());
  for (int i = 0; i < head_dim / 2; ++i) {
    const auto inverse_frequency = float(1.0 / std::pow(theta, 2.0 * i / head_dim));
    table.inverse_frequency.push_back(inverse_frequency);
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

void rotate_to(const RopeTable& rope, const float* x, int position, float* out) {
  const int n_pairs = rope.head_dim / 2;
  const float* cos = rope.cos.data() + std::size_t(position) * n_pairs;
  const float* sin = rope.sin.data() + std::size_t(position) * n_pairs;
  for (int i = 0; i < n_pairs; ++i) {
    out[2 * i] = x[2 * i] * cos[i] - x[2 * i + 1] * sin[i];
    out[2 * i + 1] = x[2 * i] * sin[i] + x[2 * i + 1] * cos[i];
  }
}

}  // namespace kvscope
