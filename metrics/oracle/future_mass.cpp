#include "metrics/oracle/future_mass.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace kvscope {

template <class Weight>
void check_attention(const DecodeAttention<Weight>& attention) {
  const int n_tokens = attention.n_tokens;
  if (attention.prompt_tokens < 1 || n_tokens < attention.prompt_tokens) {
    throw std::invalid_argument("decode attention: needs 1 <= prompt_tokens <= n_tokens, not " +
                                std::to_string(attention.prompt_tokens) + " and " +
                                std::to_string(n_tokens));
  }
  const int n_rows = n_tokens - attention.prompt_tokens;
  if (attention.weights.size() != std::size_t(n_rows) * std::size_t(n_tokens)) {
    throw std::invalid_argument("decode attention: " + std::to_string(attention.weights.size()) +
                                " weights, not " + std::to_string(n_rows) + " rows of " +
                                std::to_string(n_tokens));
  }
  for (int position = attention.prompt_tokens; position < n_tokens; ++position) {
    const std::span<const Weight> row = attention.row(position);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] >= 0 && std::isfinite(row[i])) continue;
      throw std::invalid_argument("decode attention: the weight of row " +
                                  std::to_string(position) + " on token " + std::to_string(i) +
                                  " is not a finite number >= 0");
    }
  }
}

template <class Weight>
FutureMass::FutureMass(const DecodeAttention<Weight>& attention)
    : prompt_tokens_(attention.prompt_tokens), n_tokens_(attention.n_tokens) {
  check_attention(attention);
  const auto width = std::size_t(n_tokens_);
  mass_.assign(std::size_t(n_tokens_ - prompt_tokens_ + 1) * width, 0.0);
  for (int position = n_tokens_ - 1; position >= prompt_tokens_; --position) {
    double* before = mass_.data() + std::size_t(position - prompt_tokens_) * width;
    const double* after = before + width;
    const std::span<const Weight> row = attention.row(position);
    for (std::size_t i = 0; i < row.size(); ++i) before[i] = after[i] + double(row[i]);
  }
}

template void check_attention(const DecodeAttention<float>&);
template void check_attention(const DecodeAttention<double>&);
template FutureMass::FutureMass(const DecodeAttention<float>&);
template FutureMass::FutureMass(const DecodeAttention<double>&);

}  // namespace kvscope
