// Scores of keys alone.
//
//   knorm    : -‖k_i‖₂                                (Devoto et al., EMNLP 2024, arXiv:2406.11430)
//   keydiff  : -cos(k_i, mean_j k_j/‖k_j‖)            (Park et al., arXiv:2504.15364)
//   ratio    : ‖v_i‖₂ / ‖k_i‖₂                        (PagedEviction, arXiv:2509.04377)
//
// Needs: the stored keys; the values for the ratio.
//
// State: none. Norms do not change under RoPE; cosines do, and are taken anew at each selection
// because the mean moves with the resident set.
//
// Deviations: none known, but for the guards of zero keys that the header states.
#include "runner/policies/key_scores.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "runner/base/norm.h"

namespace kvscope {
namespace {

constexpr float kSmallestKeyNorm = 1e-12F;

std::span<const float> row_of(std::span<const float> rows, std::size_t row, int dim) {
  return rows.subspan(row * dim, dim);
}

}  // namespace

std::vector<float> row_norms(std::span<const float> rows, int dim) {
  assert(dim > 0 && rows.size() % dim == 0);
  std::vector<float> norms(rows.size() / dim);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    norms[i] = norm(row_of(rows, i, dim));
  }
  return norms;
}

std::vector<float> knorm_scores(std::span<const float> keys, int dim) {
  std::vector<float> scores = row_norms(keys, dim);
  for (float& score : scores) score = -score;
  return scores;
}

std::vector<float> keydiff_anchor(std::span<const float> keys, int dim) {
  const std::vector<float> norms = row_norms(keys, dim);
  // double: tens of thousands of terms below one.
  std::vector<double> sum(dim, 0.0);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] == 0.0F) continue;
    const auto key = row_of(keys, i, dim);
    for (int j = 0; j < dim; ++j) sum[j] += key[j] / norms[i];
  }
  const double count = std::max<double>(1.0, static_cast<double>(norms.size()));
  std::vector<float> anchor(dim);
  for (int j = 0; j < dim; ++j) anchor[j] = static_cast<float>(sum[j] / count);
  return anchor;
}

std::vector<float> keydiff_scores(std::span<const float> keys, int dim) {
  const std::vector<float> norms = row_norms(keys, dim);
  const std::vector<float> anchor = keydiff_anchor(keys, dim);
  const float anchor_norm = row_norms(anchor, dim).front();
  std::vector<float> scores(norms.size(), 0.0F);
  if (anchor_norm == 0.0F) return scores;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (norms[i] == 0.0F) continue;
    scores[i] = -(dot(row_of(keys, i, dim), anchor) / norms[i] / anchor_norm);
  }
  return scores;
}

std::vector<float> value_key_norm_ratios(std::span<const float> keys, std::span<const float> values,
                                         int dim) {
  assert(keys.size() == values.size());
  const std::vector<float> key_norms = row_norms(keys, dim);
  std::vector<float> ratios = row_norms(values, dim);
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    // Written so that a NaN key stays NaN.
    const float norm = key_norms[i] < kSmallestKeyNorm ? kSmallestKeyNorm : key_norms[i];
    ratios[i] /= norm;
  }
  return ratios;
}

}  // namespace kvscope
