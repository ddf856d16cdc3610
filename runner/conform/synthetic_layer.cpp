#include "runner/conform/synthetic_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvscope::conform {
namespace {

// The first prompt_tokens rows of each head. all: [n_heads][n_tokens][head_dim]
std::vector<float> first_rows(const std::vector<float>& all, int n_heads, int n_tokens,
                              int head_dim, int prompt_tokens) {
  std::vector<float> some;
  for (int h = 0; h < n_heads; ++h) {
    const auto first = all.begin() + std::ptrdiff_t{h} * n_tokens * head_dim;
    some.insert(some.end(), first, first + std::ptrdiff_t{prompt_tokens} * head_dim);
  }
  return some;
}

}  // namespace

AttentionTable::AttentionTable(int heads, int tokens)
    : n_heads(heads),
      n_tokens(tokens),
      weights(static_cast<std::size_t>(heads) * tokens * tokens, 1.0) {}

double& AttentionTable::at(int head, int row, int token) {
  return weights[(static_cast<std::size_t>(head) * n_tokens + row) * n_tokens + token];
}

double AttentionTable::at(int head, int row, int token) const {
  return weights[(static_cast<std::size_t>(head) * n_tokens + row) * n_tokens + token];
}

void rotate_pairs(std::span<const float> inverse_frequency, int position, std::span<float> vector) {
  for (std::size_t i = 0; i < inverse_frequency.size(); ++i) {
    const double angle = static_cast<double>(inverse_frequency[i]) * position;
    const double x = vector[2 * i];
    const double y = vector[2 * i + 1];
    vector[2 * i] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
    vector[2 * i + 1] = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
  }
}

void attend_by_contents(SyntheticLayer& layer) {
  AttentionTable& table = layer.table;
  const std::size_t d = layer.head_dim;
  const int group = table.n_heads / layer.n_kv_heads;
  const auto rotated = [&](const std::vector<float>& all) {
    std::vector<float> out = all;
    for (std::size_t row = 0; row * d < all.size(); ++row) {
      rotate_pairs(layer.inverse_frequency, static_cast<int>(row) % table.n_tokens,
                   std::span(out).subspan(row * d, d));
    }
    return out;
  };
  const std::vector<float> queries = rotated(layer.queries);
  const std::vector<float> keys = rotated(layer.keys);
  for (int h = 0; h < table.n_heads; ++h) {
    for (int t = 0; t < table.n_tokens; ++t) {
      const float* q = &queries[(static_cast<std::size_t>(h) * table.n_tokens + t) * d];
      for (int i = 0; i <= t; ++i) {
        const float* k = &keys[(static_cast<std::size_t>(h / group) * table.n_tokens + i) * d];
        const double dot = std::inner_product(q, q + d, k, 0.0);
        table.at(h, t, i) = std::exp(dot / std::sqrt(static_cast<double>(d)));
      }
    }
  }
}

std::vector<float> probabilities(const AttentionTable& table, int first, int n_heads, int row,
                                 const Positions& visible) {
  std::vector<float> result;
  result.reserve(visible.size() * n_heads);
  for (int h = first; h < first + n_heads; ++h) {
    double sum = 0.0;
    for (const auto i : visible) sum += table.at(h, row, i);
    for (const auto i : visible) result.push_back(static_cast<float>(table.at(h, row, i) / sum));
  }
  return result;
}

std::vector<float> column_weights(const AttentionTable& table, const PromptNeed& need,
                                  int prompt_tokens) {
  if (need.rows == PromptNeed::Rows::kNone) return {};
  const int rows =
      need.rows == PromptNeed::Rows::kAll ? prompt_tokens : std::min(need.last_rows, prompt_tokens);
  std::vector<float> result;
  std::vector<double> sums(prompt_tokens);
  for (int h = 0; h < table.n_heads; ++h) {
    std::fill(sums.begin(), sums.end(), 0.0);
    double weight = need.mean ? 1.0 / rows : 1.0;
    for (int u = prompt_tokens - 1; u >= prompt_tokens - rows; --u) {
      double row_sum = 0.0;
      for (int i = 0; i <= u; ++i) row_sum += table.at(h, u, i);
      for (int i = 0; i <= u; ++i) sums[i] += weight * table.at(h, u, i) / row_sum;
      weight *= static_cast<double>(need.decay);
    }
    for (const double sum : sums) result.push_back(static_cast<float>(sum));
  }
  return result;
}

DensePrompt::DensePrompt(const SyntheticLayer& layer, const PromptNeed& need, int prompt_tokens)
    : layer_(layer),
      need_(need),
      prompt_tokens_(prompt_tokens),
      column_weights_(conform::column_weights(layer.table, need, prompt_tokens)) {
  const int n = layer.table.n_tokens;
  const int d = layer.head_dim;
  if (d == 0) return;
  if (need.keys) {
    keys_ = first_rows(layer.keys, layer.n_kv_heads, n, d, prompt_tokens);
    for (std::size_t row = 0; row * d < keys_.size(); ++row) {
      rotate_pairs(layer.inverse_frequency, static_cast<int>(row) % prompt_tokens,
                   std::span(keys_).subspan(row * d, d));
    }
  }
  if (need.raw_keys) raw_keys_ = first_rows(layer.keys, layer.n_kv_heads, n, d, prompt_tokens);
  if (need.values) values_ = first_rows(layer.values, layer.n_kv_heads, n, d, prompt_tokens);
  if (need.queries) queries_ = first_rows(layer.queries, layer.table.n_heads, n, d, prompt_tokens);
}

PromptLayer DensePrompt::view(int layer, int n_layers) const {
  PromptLayer view;
  view.layer = layer;
  view.n_layers = n_layers;
  view.n_heads = layer_.table.n_heads;
  view.n_kv_heads = layer_.n_kv_heads;
  view.prompt_tokens = prompt_tokens_;
  view.column_weights = column_weights_;
  view.head_dim = layer_.head_dim;
  view.keys = keys_;
  view.raw_keys = raw_keys_;
  view.values = values_;
  view.queries = queries_;
  view.inverse_frequency = layer_.inverse_frequency;
  if (need_.replay_rows > 0) view.rows = this;
  return view;
}

void DensePrompt::for_each(int first_row, const Visit& visit) const {
  const int n_heads = layer_.table.n_heads;
  std::vector<float> row(static_cast<std::size_t>(n_heads) * prompt_tokens_);
  for (int u = std::max(0, first_row); u < prompt_tokens_; ++u) {
    for (int h = 0; h < n_heads; ++h) {
      double sum = 0.0;
      for (int i = 0; i <= u; ++i) sum += layer_.table.at(h, u, i);
      for (int i = 0; i <= u; ++i) {
        row[static_cast<std::size_t>(h) * prompt_tokens_ + i] =
            static_cast<float>(layer_.table.at(h, u, i) / sum);
      }
    }
    visit(u, row, prompt_tokens_);
  }
}

}  // namespace kvscope::conform
