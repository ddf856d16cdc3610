// Owns what DecodeAttention looks at, made from rows of e^logit.
#pragma once

#include <numeric>
#include <vector>

#include "metrics/oracle/future_mass.h"

namespace kvscope::testing {

template <class Weight = double>
struct FullAttention {
  int prompt_tokens = 1;
  int n_tokens = 0;
  std::vector<Weight> weights;  // [n_tokens - prompt_tokens][n_tokens]

  // rows: exp_logits[t] has t + 1 entries
  FullAttention(const std::vector<std::vector<double>>& exp_logits, int prompt)
      : prompt_tokens(prompt), n_tokens(int(exp_logits.size())) {
    for (int t = prompt; t < n_tokens; ++t) {
      const std::vector<double>& row = exp_logits[std::size_t(t)];
      const double sum = std::accumulate(row.begin(), row.end(), 0.0);
      for (const double weight : row) weights.push_back(Weight(weight / sum));
      weights.resize(std::size_t(t - prompt + 1) * std::size_t(n_tokens));
    }
  }

  DecodeAttention<Weight> view() const { return {prompt_tokens, n_tokens, weights}; }
  FutureMass future() const { return FutureMass(view()); }
};

}  // namespace kvscope::testing
