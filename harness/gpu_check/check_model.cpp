#include "harness/gpu_check/check_model.h"

#include "runner/base/splitmix.h"
#include "runner/policies/spec.h"

namespace kvscope {

ModelConfig smollm2_shape() {
  ModelConfig config;
  config.architecture = "llama";
  config.name = "random SmolLM2-135M";
  config.n_layers = 30;
  config.n_heads = 9;
  config.n_kv_heads = 3;
  config.head_dim = 64;
  config.d_model = 576;
  config.d_ff = 1536;
  config.n_vocab = 49152;
  config.context_length = 8192;
  config.rope_theta = 100000.0;
  config.tied_head = true;
  return config;
}

ModelConfig llama3_8b_shape(int n_layers) {
  ModelConfig config;
  config.architecture = "llama";
  config.name = "random Llama-3-8B";
  if (n_layers != 32) config.name += ", " + std::to_string(n_layers) + " layers";
  config.n_layers = n_layers;
  config.n_heads = 32;
  config.n_kv_heads = 8;
  config.head_dim = 128;
  config.d_model = 4096;
  config.d_ff = 14336;
  config.n_vocab = 128256;
  config.context_length = 8192;
  config.rope_theta = 500000.0;
  return config;
}

ModelConfig tiny_shape() {
  ModelConfig config;
  config.architecture = "llama";
  config.name = "random tiny";
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  config.d_model = 64;
  config.d_ff = 96;
  config.n_vocab = 320;
  config.context_length = 512;
  config.tied_head = true;
  return config;
}

CheckModel::CheckModel(const ModelConfig& config, DType dtype, Backend& backend)
    : model(load_model(RandomWeights(config, kCheckSeed), backend, dtype, dtype)),
      engine(model, backend) {
  engine.allow_beyond_context(true);
}

std::vector<std::int32_t> check_tokens(const ModelConfig& config, int n, std::uint64_t stream) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = std::int32_t(smix(smix(stream) ^ i) % std::uint64_t(config.n_vocab));
  }
  return ids;
}

std::shared_ptr<const Policy> check_policy(std::string_view policy, int permille, int length,
                                           bool may_stream) {
  const PolicySpec spec = parse_policy(policy);
  FitRequest request;
  request.budget.permille = spec.is_full() ? 1000 : permille;
  request.length = length;
  request.in_stream = may_stream && spec.acts_in_stream();
  return fit_policy(spec, request);
}

}  // namespace kvscope
