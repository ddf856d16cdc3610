// CAKE's statistics of the prompt's window, budgets of the layers and scores, as pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

struct CakeOptions {
  float gamma = 200.0F;  // weight of the variance in the indicator
  int kernel = 5;        // odd; average pooling with zero padding
  double tau1 = 1.0;     // temperature of the entropy
  double tau2 = 1.0;     // temperature of the variance
};

// Statistics of the window's rows of the query heads of one KV head, fed row after row. Entropies
// and variances of a layer are the sums over its KV heads.
class CakeWindow {
 public:
  CakeWindow(int n_heads, int prefix_tokens);

  // One window row of a query head: the prefix columns of its softmax over the whole causal row.
  // probabilities: [prefix_tokens]. Each head gets the same rows, in any order among the heads.
  void add_row(int head, std::span<const float> probabilities);

  // -Σ a ln(a + 1e-10) over heads, rows and columns; not negative
  double entropy_nats() const;
  // Sum over heads and columns of the unbiased variance over the rows; zero for a single row
  double variance() const;
  // mean over rows + gamma * variance for each head, pooled, mean over the heads: [prefix_tokens]
  std::vector<float> indicator(const CakeOptions& options) const;

 private:
  double variance_of(int head, std::size_t column) const;

  std::size_t prefix_tokens_;
  std::vector<int> rows_;        // [n_heads]
  std::vector<double> mean_;     // [n_heads][prefix_tokens] over the rows so far
  std::vector<double> squares_;  // [n_heads][prefix_tokens] sum of squared distances from it
  std::vector<double> entropy_;  // [n_heads]
};

// entropy^(1/tau1) * variance^(1/tau2) of a layer
double cake_preference(const CakeOptions& options, double entropy_nats, double variance);

// Budgets without the window of the layers seen so far, for the total of all layers:
// (budget - window) * n_layers in proportion to the preferences, none above prompt_tokens - window
// (the others take what that leaves), integers by largest remainder. All preferences zero: uniform.
// preferences: [layers seen]; budget: mean by layer, window included → [layers seen]
std::vector<int> cake_prefix_budgets(std::span<const double> preferences, int n_layers, int budget,
                                     int window, int prompt_tokens);

// Score of a decode step: the current row of each query head over the cached tokens but the newest
// `window`, pooled in the order of positions, mean over the heads. Slots of the window get zero.
// probabilities: [n_heads][n]; positions: [n] by slot, any order, distinct → [n]
std::vector<float> cake_decode_scores(const CakeOptions& options,
                                      std::span<const float> probabilities,
                                      std::span<const std::int32_t> positions, int n_heads,
                                      int window);

}  // namespace kvscope
