#include "runner/trace/trace.h"

#include <algorithm>

namespace kvscope {

TraceFacts facts_of(const Model& model) {
  TraceFacts facts;
  const ModelConfig& c = model.config;
  facts.model_name = c.name;
  facts.model_key = model.key();
  facts.weights_sha256 = model.weights_sha256;
  facts.dtype = model.dtype;
  facts.kv_dtype = model.kv_dtype;
  facts.n_layers = c.n_layers;
  facts.n_heads = c.n_heads;
  facts.n_kv_heads = c.n_kv_heads;
  facts.head_dim = c.head_dim;
  facts.rope_theta = c.rope_theta;
  return facts;
}

std::vector<int> sampled_layers(int n_layers) {
  std::vector<int> layers = {0, n_layers / 4, n_layers / 2, 3 * n_layers / 4, n_layers - 1};
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

}  // namespace kvscope
