// A model without a file: weights of any shape, drawn from a seed. The same seed gives the same
// weights on every machine. For checks and timings; nothing it says means anything.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runner/model/weight_source.h"

namespace kvscope {

// Uniform values of variance gain² / n_in, with gains of queries and keys that make attention far
// from uniform; norms lie around one. A row's values depend on seed, name and row alone.
class RandomWeights final : public WeightSource {
 public:
  RandomWeights(ModelConfig config, std::uint64_t seed);

  const ModelConfig& config() const override { return config_; }
  void read_rows(std::string_view name, int n_out, int n_in, int first, int n,
                 float* out) const override;
  bool has(std::string_view name) const override { return tensors_.contains(std::string(name)); }
  const std::string& sha256() const override { return sha256_; }  // of shape and seed

 private:
  struct Tensor {
    int n_out = 0;
    int n_in = 0;
    float offset = 0.0F;  // values are offset + scale · u, u uniform in [-1, 1)
    float scale = 0.0F;
    std::uint64_t key = 0;
  };
  void add(const std::string& name, int n_out, int n_in, float offset, float scale);
  void add_matrix(const std::string& name, int n_out, int n_in, float gain);
  void add_norm(const std::string& name);

  ModelConfig config_;
  std::uint64_t seed_;
  std::string sha256_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace kvscope
