// PyramidKV: lower layers keep more (Cai et al., arXiv:2406.02069).
//
//   b = B - w,   hi = min(2b - b/beta, P - w),   lo = 2b - hi
//   budget(l) = w + hi - (hi - lo) * l / (L - 1)      integers by largest remainder
//
// Needs: lengths only.
//
// State: none.
//
// Deviations: the official code floors the step between layers, so that its sum overshoots, and
// falls back to a uniform budget where P < 2b; here the sum is exact and the pyramid flattens until
// it fits. kvpress counts the window inside hi and lo and rounds each layer on its own.
#include "runner/policies/pyramid_budgets.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "runner/policies/apportion.h"

namespace kvscope {

std::vector<int> pyramid_budgets(int n_layers, int budget, int window, int prompt_tokens,
                                 double beta) {
  assert(n_layers >= 1 && window >= 0 && window <= budget && beta >= 1.0);
  if (prompt_tokens <= budget) return std::vector<int>(n_layers, prompt_tokens);
  if (n_layers == 1) return {budget};
  const int prefix_budget = budget - window;
  const double high = std::min(2.0 * prefix_budget - prefix_budget / beta,
                               static_cast<double>(prompt_tokens) - window);
  const double low = 2.0 * prefix_budget - high;
  std::vector<double> quotas(n_layers);
  for (int layer = 0; layer < n_layers; ++layer) {
    quotas[layer] = high - (high - low) * layer / (n_layers - 1);
  }
  std::vector<int> budgets = largest_remainder(quotas, n_layers * prefix_budget);
  for (int& tokens : budgets) tokens += window;
  return budgets;
}

std::vector<int> pyramid_budgets_kvpress(int n_layers, double budget, int window, int prompt_tokens,
                                         double beta) {
  assert(n_layers >= 1 && beta >= 1.0);
  const double high =
      std::min(2.0 * budget - budget / beta, static_cast<double>(prompt_tokens) - window);
  const double low = 2.0 * budget - high;
  // nearbyint rounds half to even, as Python's round does.
  const bool fits = n_layers > 1 && low >= window && high >= low;
  const double step = fits ? (high - low) / (n_layers - 1) : 0.0;
  const double first = fits ? high : budget;
  std::vector<int> budgets(n_layers);
  for (int layer = 0; layer < n_layers; ++layer) {
    budgets[layer] = static_cast<int>(std::nearbyint(first - layer * step));
  }
  return budgets;
}

}  // namespace kvscope
