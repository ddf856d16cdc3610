// Full attention a* of the decode rows of one (layer, KV head), and what it says about the future:
// R_i(t) = Σ_{u > t} a*_{u,i}, the mass lost by evicting token i after row t (policies.md 8.7).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvscope {

// A view of recorded attention. Under GQA a* is the mean over the group's query heads; any other
// non-negative weights do as well (a*·‖W_o v‖₁ for the value-aware variant).
template <class Weight>  // float or double
struct DecodeAttention {
  int prompt_tokens = 0;  // P >= 1
  int n_tokens = 0;       // N >= P: prompt and decode rows
  std::span<const Weight>
      weights;  // [N - P][N]; row r is position P + r, keys above it are ignored

  std::span<const Weight> row(int position) const {  // [position + 1]
    return weights.subspan(std::size_t(position - prompt_tokens) * std::size_t(n_tokens),
                           std::size_t(position) + 1);
  }
};

// Throws std::invalid_argument unless the sizes fit and every weight is finite and >= 0.
template <class Weight>
void check_attention(const DecodeAttention<Weight>& attention);

class FutureMass {
 public:
  // Throws like check_attention.
  template <class Weight>
  explicit FutureMass(const DecodeAttention<Weight>& attention);

  int prompt_tokens() const { return prompt_tokens_; }
  int n_tokens() const { return n_tokens_; }

  // R of the tokens 0 … row, for the rows P - 1 (the prompt's end) … N - 1 (all zero).
  std::span<const double> after(int row) const {
    return {mass_.data() + std::size_t(row - prompt_tokens_ + 1) * std::size_t(n_tokens_),
            std::size_t(row) + 1};
  }

 private:
  int prompt_tokens_;
  int n_tokens_;
  std::vector<double> mass_;  // [N - P + 1][N], sums in double from the last row backwards
};

}  // namespace kvscope
