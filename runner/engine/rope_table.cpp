#include "runner/engine/rope_table.h"

#include <cmath>

#include "runner/model/rope_frequencies.h"

namespace kvscope {

RopeTable make_rope_table(std::span<const float> inverse_frequency, int n_positions,
                          Memory* memory) {
  const int n_pairs = int(inverse_frequency.size());
  RopeTable table{2 * n_pairs,
                  n_positions,
                  SharedVector<float>(memory),
                  SharedVector<float>(memory),
                  {},
                  {},
                  {inverse_frequency.begin(), inverse_frequency.end()}};
  table.cos.resize(std::size_t(n_pairs) * n_positions);
  table.sin.resize(table.cos.size());
  table.cos_by_pair.resize(table.cos.size());
  table.sin_by_pair.resize(table.cos.size());
  for (int i = 0; i < n_pairs; ++i) {
    for (int p = 0; p < n_positions; ++p) {
      const float angle = float(p) * inverse_frequency[i];
      const std::size_t row = std::size_t(p) * n_pairs + i;
      const std::size_t column = std::size_t(i) * n_positions + p;
      table.cos[row] = table.cos_by_pair[column] = float(std::cos(double(angle)));
      table.sin[row] = table.sin_by_pair[column] = float(std::sin(double(angle)));
    }
  }
  return table;
}

RopeTable make_rope_table(int head_dim, double theta, int n_positions, Memory* memory) {
  return make_rope_table(rope_frequencies(head_dim, head_dim, theta), n_positions, memory);
}

RopeTable make_rope_table(const ModelConfig& config, std::span<const float> inverse_frequency,
                          int n_positions, Memory* memory) {
  if (inverse_frequency.empty())
    return make_rope_table(config.head_dim, config.rope_theta, n_positions, memory);
  return make_rope_table(inverse_frequency, n_positions, memory);
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
