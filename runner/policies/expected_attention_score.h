// Expected Attention's score as pure functions: what future queries, taken as Gaussian, will pay.
#pragma once

#include <span>
#include <vector>

namespace kvscope {

struct ExpectedAttentionOptions {
  int n_sink = 4;              // oldest tokens: not in the statistics, always first
  int horizon = 512;           // future positions the rotation is averaged over
  bool use_covariance = true;  // the quadratic term
  bool use_value_norm = true;  // multiply by ‖v‖₂
  float epsilon = 0.0F;        // added before that
};

// Mean over positions of the rotation of each adjacent pair (2i, 2i + 1), which is cos·1 + sin·J.
struct MeanRotation {
  std::vector<double> cos;  // [dim/2]
  std::vector<double> sin;  // [dim/2]
};

// Over first_position … first_position + horizon - 1. inverse_frequency: [dim/2]; zero for a pair
// that is not rotated.
MeanRotation mean_rotation(std::span<const float> inverse_frequency, int first_position,
                           int horizon);

// Of the queries of one head.
struct QueryStatistics {
  std::vector<double> mean;        // [dim]
  std::vector<double> covariance;  // [dim][dim], population; empty if not wanted
};

// queries: [n][dim], pre-RoPE, those of sinks left out by the caller; n ≥ 1
QueryStatistics query_statistics(std::span<const float> queries, int dim, bool with_covariance);

// mean → R mean, covariance → R covariance Rᵀ
void rotate(const MeanRotation& rotation, QueryStatistics& statistics);

// k·mean/√d + kᵀ covariance k/(2d) of each key. keys: [n][dim] → [n]
std::vector<double> expected_logits(const QueryStatistics& rotated, std::span<const float> keys);

// Scores of one KV head. queries: [n_heads][n_queries][dim], pre-RoPE, of a whole prompt or of a
// chunk of it, the first n_sink left out; keys (post-RoPE) and values: [n][dim] → [n]; the first
// n_sink, the sinks, have the maximum + 1.
std::vector<float> expected_attention_scores(const ExpectedAttentionOptions& options,
                                             const MeanRotation& rotation,
                                             std::span<const float> queries, int n_heads,
                                             std::span<const float> keys,
                                             std::span<const float> values, int dim);

}  // namespace kvscope
