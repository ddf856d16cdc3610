#include "runner/model/model_bytes.h"

#include "runner/cache/page_pool.h"

namespace kvscope {

std::int64_t weight_bytes(const ModelConfig& config, DType dtype) {
  const auto n = [](int count) { return std::int64_t(count); };
  const std::int64_t d_query = n(config.n_heads) * config.head_dim;
  const std::int64_t d_kv = n(config.n_kv_heads) * config.head_dim;
  const int mlp_matrices = is_gated(config.form.activation) ? 3 : 2;
  const std::int64_t layer =
      n(config.d_model) * (2 * d_query + 2 * d_kv + mlp_matrices * n(config.d_ff));
  const std::int64_t positions = config.form.learned_positions ? config.context_length : 0;
  const std::int64_t tables = (2 * n(config.n_vocab) + positions) * config.d_model;
  const std::int64_t norms = (2 * n(config.n_layers) + 1) * config.d_model;
  return (config.n_layers * layer + tables) * std::int64_t(element_bytes(dtype)) +
         norms * std::int64_t(sizeof(float));
}

std::int64_t sequence_bytes(const ModelConfig& config, DType kv_dtype, int n_tokens) {
  const std::int64_t pages = (n_tokens + kPageSlots - 1) / kPageSlots;
  const PageShape shape{config.head_dim, kv_dtype, true};
  return std::int64_t(config.n_layers) * config.n_kv_heads * pages *
         std::int64_t(shape.page_bytes());
}

}  // namespace kvscope
