// CAKE: budgets of the layers from how spread and how changing their attention is
// (Qin et al., ICLR 2025, arXiv:2503.12491).
//
//   H(l)    = -Σ_{h,j,i} a ln(a + 1e-10)         a: window row j of head h on prefix token i
//   V(l)    = Σ_{h,i} var_j a                    unbiased
//   pref(l) = H^(1/tau1) * V^(1/tau2)
//   I(i)    = mean over heads of pool_k(mean_j a + gamma * var_j a)
//   keep    : the window and, in layer l, the (B - w) * L * pref(l) / Σ pref best by I
//
// Needs: the attention probabilities of the last w prompt rows; of each row in decode.
//
// State: while the window streams by, a mean and a sum of squares per query head and prefix token;
// after it the indicator of each kept token, for the cascade.
//
// Deviations: shares that exceed the prefix are redistributed in proportion and rounded by largest
// remainder (the official code truncates and repairs, and can exceed the prefix); equal rows
// everywhere give uniform budgets (it divides by zero); decode pools in the order of positions (it
// pools in cache order, which is the order of scores).
#include "runner/policies/cake_scores.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "runner/policies/apportion.h"
#include "runner/policies/snapkv.h"

namespace kvscope {
namespace {

constexpr double kEntropyGuard = 1e-10;

// Mean over heads of pooled rows, added in the order of the heads. rows: [n_heads][n]
class PooledMean {
 public:
  PooledMean(int kernel, std::size_t n) : options_{.kernel = kernel}, sum_(n, 0.0F) {}
  void add(std::span<const float> row) {
    const std::vector<float> pooled = pool_scores(options_, row);
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += pooled[i];
    ++heads_;
  }
  std::vector<float> take() {
    for (float& value : sum_) value /= static_cast<float>(std::max(1, heads_));
    return std::move(sum_);
  }

 private:
  SnapKvOptions options_;
  std::vector<float> sum_;
  int heads_ = 0;
};

}  // namespace

CakeWindow::CakeWindow(int n_heads, int prefix_tokens)
    : prefix_tokens_(prefix_tokens),
      rows_(n_heads, 0),
      mean_(prefix_tokens_ * n_heads, 0.0),
      squares_(prefix_tokens_ * n_heads, 0.0),
      entropy_(n_heads, 0.0) {}

void CakeWindow::add_row(int head, std::span<const float> probabilities) {
  assert(probabilities.size() == prefix_tokens_);
  const double rows = ++rows_[head];
  double* mean = mean_.data() + prefix_tokens_ * head;
  double* squares = squares_.data() + prefix_tokens_ * head;
  // Distances from the running mean instead of sums of squares: equal rows have a variance of
  // exactly zero, and one of 1e-6 beside a mean near one keeps its digits.
  for (std::size_t i = 0; i < prefix_tokens_; ++i) {
    const double distance = probabilities[i] - mean[i];
    mean[i] += distance / rows;
    squares[i] += distance * (probabilities[i] - mean[i]);
  }
  double entropy = 0.0;
  for (const float a : probabilities) {
    if (a != 0.0F) entropy -= a * std::log(a + kEntropyGuard);
  }
  entropy_[head] += entropy;
}

double CakeWindow::entropy_nats() const {
  // The guard makes a weight of one count -1e-10.
  return std::max(0.0, std::accumulate(entropy_.begin(), entropy_.end(), 0.0));
}

double CakeWindow::variance_of(int head, std::size_t column) const {
  return rows_[head] < 2 ? 0.0 : squares_[prefix_tokens_ * head + column] / (rows_[head] - 1);
}

double CakeWindow::variance() const {
  double sum = 0.0;
  for (int head = 0; head < static_cast<int>(rows_.size()); ++head) {
    for (std::size_t i = 0; i < prefix_tokens_; ++i) sum += variance_of(head, i);
  }
  return sum;
}

std::vector<float> CakeWindow::indicator(const CakeOptions& options) const {
  PooledMean pooled(options.kernel, prefix_tokens_);
  std::vector<float> row(prefix_tokens_);
  for (int head = 0; head < static_cast<int>(rows_.size()); ++head) {
    const double* mean = mean_.data() + prefix_tokens_ * head;
    for (std::size_t i = 0; i < prefix_tokens_; ++i) {
      row[i] = static_cast<float>(mean[i] + options.gamma * variance_of(head, i));
    }
    pooled.add(row);
  }
  return pooled.take();
}

double cake_preference(const CakeOptions& options, double entropy_nats, double variance) {
  return std::pow(entropy_nats, 1.0 / options.tau1) * std::pow(variance, 1.0 / options.tau2);
}

std::vector<int> cake_prefix_budgets(std::span<const double> preferences, int n_layers, int budget,
                                     int window, int prompt_tokens) {
  assert(window <= budget);
  const int cap = std::max(0, prompt_tokens - window);
  const auto seen = static_cast<int>(preferences.size());
  const int total = std::min((budget - window) * n_layers, cap * seen);
  // A layer whose attention is not finite has no preference; the others keep theirs.
  std::vector<double> weights(preferences.begin(), preferences.end());
  for (double& weight : weights) weight = std::isfinite(weight) ? std::max(0.0, weight) : 0.0;
  return largest_remainder(capped_shares(weights, total, cap), total);
}

std::vector<float> cake_decode_scores(const CakeOptions& options,
                                      std::span<const float> probabilities,
                                      std::span<const std::int32_t> positions, int n_heads,
                                      int window) {
  const std::size_t n = positions.size();
  assert(probabilities.size() == n * n_heads);
  std::vector<float> scores(n, 0.0F);
  if (n <= static_cast<std::size_t>(window)) return scores;

  std::vector<std::int32_t> order(n);  // slots by position
  std::iota(order.begin(), order.end(), 0);
  if (!std::is_sorted(positions.begin(), positions.end())) {
    std::sort(order.begin(), order.end(),
              [&](std::int32_t a, std::int32_t b) { return positions[a] < positions[b]; });
  }
  order.resize(n - window);

  PooledMean pooled(options.kernel, order.size());
  std::vector<float> row(order.size());
  for (int head = 0; head < n_heads; ++head) {
    for (std::size_t i = 0; i < order.size(); ++i) row[i] = probabilities[n * head + order[i]];
    pooled.add(row);
  }
  const std::vector<float> by_position = pooled.take();
  for (std::size_t i = 0; i < order.size(); ++i) scores[order[i]] = by_position[i];
  return scores;
}

}  // namespace kvscope
