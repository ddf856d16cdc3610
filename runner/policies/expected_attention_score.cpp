// Expected Attention (Devoto et al., arXiv:2510.00636; KVPress' ExpectedAttention).
//
//   mu, S   = mean and population covariance of a head's pre-RoPE queries without the sinks'
//   R       = mean rotation over the positions P … P + horizon - 1
//   z_i     = k_i·(R mu)/√d + k_iᵀ (R S Rᵀ) k_i/(2d)
//   score_i = (mean over the group's heads of softmax(z)_i + epsilon) * ‖v_i‖₂
//
// where the softmax runs over the keys that are not sinks.
//
// Needs: pre-RoPE queries of the whole prompt, stored keys, values. No attention.
//
// State: none; it acts once, at the prompt's end.
//
// Deviations: sinks get the maximum + 1 (KVPress: the maximum, which ties with its owner). As
// there, the quadratic form sees the mean rotation, not the spread of R mu over the positions.
#include "runner/policies/expected_attention_score.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "runner/policies/key_scores.h"

namespace kvscope {
namespace {

// Keys that go through the covariance together, so that it is read once for all of them.
constexpr std::size_t kLanes = 4;
using Lanes = std::array<double, kLanes>;

// Upper triangle += Σ over four rows of row rowᵀ. rows: [4][dim]
void add_outer_products(const std::vector<double>& rows, std::size_t dim,
                        std::vector<double>& covariance) {
  const double* x0 = rows.data();
  const double* x1 = x0 + dim;
  const double* x2 = x1 + dim;
  const double* x3 = x2 + dim;
  for (std::size_t i = 0; i < dim; ++i) {
    double* sums = covariance.data() + i * dim;
    const double a0 = x0[i], a1 = x1[i], a2 = x2[i], a3 = x3[i];
    for (std::size_t j = i; j < dim; ++j) {
      sums[j] += (a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j]);
    }
  }
}

// keys: [n][dim], those from `first` on → [dim][kLanes]; what is missing is zero
void transpose_keys(std::span<const float> keys, std::size_t dim, std::size_t first,
                    std::vector<double>& block) {
  const std::size_t n = std::min(kLanes, keys.size() / dim - first);
  block.assign(dim * kLanes, 0.0);
  for (std::size_t lane = 0; lane < n; ++lane) {
    const float* key = keys.data() + (first + lane) * dim;
    for (std::size_t j = 0; j < dim; ++j) block[j * kLanes + lane] = key[j];
  }
}

void add_softmax(std::span<const double> logits, std::vector<double>& sum) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights(logits.size());
  double total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp(logits[i] - largest);
    total += weights[i];
  }
  for (std::size_t i = 0; i < logits.size(); ++i) sum[i] += weights[i] / total;
}

}  // namespace

MeanRotation mean_rotation(std::span<const float> inverse_frequency, int first_position,
                           int horizon) {
  assert(horizon >= 1);
  MeanRotation rotation;
  for (const float frequency : inverse_frequency) {
    double cos_sum = 0.0;
    double sin_sum = 0.0;
    for (int p = first_position; p < first_position + horizon; ++p) {
      const float angle = static_cast<float>(p) * frequency;  // float32, as the model rotates keys
      cos_sum += std::cos(static_cast<double>(angle));
      sin_sum += std::sin(static_cast<double>(angle));
    }
    rotation.cos.push_back(cos_sum / horizon);
    rotation.sin.push_back(sin_sum / horizon);
  }
  return rotation;
}

QueryStatistics query_statistics(std::span<const float> queries, int dim, bool with_covariance) {
  const std::size_t d = dim;
  const std::size_t n = queries.size() / d;
  assert(n >= 1 && queries.size() == n * d);
  QueryStatistics statistics;
  statistics.mean.assign(d, 0.0);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t j = 0; j < d; ++j) statistics.mean[j] += queries[r * d + j];
  }
  for (double& value : statistics.mean) value /= static_cast<double>(n);
  if (!with_covariance) return statistics;

  std::vector<double>& covariance = statistics.covariance;
  covariance.assign(d * d, 0.0);
  std::vector<double> centred;  // [4][dim]; rows past the end are zero
  for (std::size_t first = 0; first < n; first += 4) {
    centred.assign(4 * d, 0.0);
    for (std::size_t r = first; r < std::min(first + 4, n); ++r) {
      for (std::size_t j = 0; j < d; ++j) {
        centred[(r - first) * d + j] = queries[r * d + j] - statistics.mean[j];
      }
    }
    add_outer_products(centred, d, covariance);
  }
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = i; j < d; ++j) {
      covariance[i * d + j] /= static_cast<double>(n);
      covariance[j * d + i] = covariance[i * d + j];
    }
  }
  return statistics;
}

void rotate(const MeanRotation& rotation, QueryStatistics& statistics) {
  const std::size_t d = statistics.mean.size();
  assert(rotation.cos.size() * 2 == d && rotation.sin.size() * 2 == d);
  const auto turn = [&](std::size_t pair, double& even, double& odd) {
    const double x = even;
    even = rotation.cos[pair] * x - rotation.sin[pair] * odd;
    odd = rotation.sin[pair] * x + rotation.cos[pair] * odd;
  };
  for (std::size_t pair = 0; pair < d / 2; ++pair) {
    turn(pair, statistics.mean[2 * pair], statistics.mean[2 * pair + 1]);
  }
  std::vector<double>& covariance = statistics.covariance;
  if (covariance.empty()) return;
  for (std::size_t row = 0; row < d; ++row) {
    for (std::size_t pair = 0; pair < d / 2; ++pair) {
      turn(pair, covariance[row * d + 2 * pair], covariance[row * d + 2 * pair + 1]);
    }
  }
  for (std::size_t column = 0; column < d; ++column) {
    for (std::size_t pair = 0; pair < d / 2; ++pair) {
      turn(pair, covariance[2 * pair * d + column], covariance[(2 * pair + 1) * d + column]);
    }
  }
}

std::vector<double> expected_logits(const QueryStatistics& rotated, std::span<const float> keys) {
  const std::size_t d = rotated.mean.size();
  const std::size_t n = keys.size() / d;
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  const double half_square = 0.5 / static_cast<double>(d);
  std::vector<double> logits(n);
  std::vector<double> block;  // [dim][kLanes]
  for (std::size_t first = 0; first < n; first += kLanes) {
    transpose_keys(keys, d, first, block);
    Lanes linear{};
    Lanes quadratic{};
    for (std::size_t i = 0; i < d; ++i) {
      const double* k = block.data() + i * kLanes;
      for (std::size_t r = 0; r < kLanes; ++r) linear[r] += rotated.mean[i] * k[r];
      if (rotated.covariance.empty()) continue;
      // The matrix is symmetric: its diagonal once, what is right of it twice.
      const double* row = rotated.covariance.data() + i * d;
      Lanes right{};
      for (std::size_t j = i + 1; j < d; ++j) {
        const double* other = block.data() + j * kLanes;
        for (std::size_t r = 0; r < kLanes; ++r) right[r] += row[j] * other[r];
      }
      for (std::size_t r = 0; r < kLanes; ++r) {
        quadratic[r] += k[r] * (row[i] * k[r] + 2.0 * right[r]);
      }
    }
    for (std::size_t r = 0; r < std::min(kLanes, n - first); ++r) {
      logits[first + r] = scale * linear[r] + half_square * quadratic[r];
    }
  }
  return logits;
}

std::vector<float> expected_attention_scores(const ExpectedAttentionOptions& options,
                                             const MeanRotation& rotation,
                                             std::span<const float> queries, int n_heads,
                                             std::span<const float> keys,
                                             std::span<const float> values, int dim) {
  const std::size_t d = dim;
  const std::size_t group = n_heads;
  const std::size_t prompt_tokens = keys.size() / d;
  assert(values.size() == keys.size() && queries.size() % (group * d) == 0);
  const std::size_t n_queries = queries.size() / (group * d);
  const std::size_t sinks = std::min<std::size_t>(options.n_sink, prompt_tokens);
  const std::size_t n = prompt_tokens - sinks;
  std::vector<float> scores(prompt_tokens, 1.0F);
  const std::size_t skipped = std::min<std::size_t>(options.n_sink, n_queries);
  if (n == 0 || skipped == n_queries) return scores;

  std::vector<double> sum(n, 0.0);
  for (std::size_t head = 0; head < group; ++head) {
    QueryStatistics statistics = query_statistics(
        queries.subspan((head * n_queries + skipped) * d, (n_queries - skipped) * d), dim,
        options.use_covariance);
    rotate(rotation, statistics);
    add_softmax(expected_logits(statistics, keys.subspan(sinks * d)), sum);
  }
  std::vector<float> norms(n, 1.0F);
  if (options.use_value_norm) norms = row_norms(values.subspan(sinks * d), dim);
  float largest = 0.0F;
  for (std::size_t i = 0; i < n; ++i) {
    const double epsilon = options.use_value_norm ? options.epsilon : 0.0F;
    const double score = (sum[i] / static_cast<double>(group) + epsilon) * norms[i];
    scores[sinks + i] = static_cast<float>(score);
    largest = std::max(largest, scores[sinks + i]);
  }
  std::fill_n(scores.begin(), sinks, largest + 1.0F);
  return scores;
}

}  // namespace kvscope
