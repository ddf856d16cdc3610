// A model in a checkpoint: what its architecture says of it, and its tensors found by the names of
// the forward pass.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runner/model/architecture.h"
#include "runner/model/tensor_store.h"
#include "runner/model/weight_source.h"

namespace kvscope {

class Checkpoint final : public WeightSource {
 public:
  // names: where `store` keeps the tensors. Throws DataError unless the store holds every tensor of
  // the model, each with its shape, and none that the forward pass would leave out.
  Checkpoint(ModelConfig config, std::unique_ptr<const TensorStore> store,
             std::span<const StoredTensor> names, std::span<const std::string_view> unused);

  const ModelConfig& config() const override { return config_; }
  bool has(std::string_view name) const override { return places_.contains(name); }
  void read_rows(std::string_view name, int n_out, int n_in, int first, int n,
                 float* out) const override;
  const std::string& sha256() const override { return store_->sha256(); }

 private:
  // Rows of a stored matrix, or elements of a stored vector, in the order of the forward pass; none
  // where it is as stored.
  using Rows = std::shared_ptr<const std::vector<std::int32_t>>;
  struct Place {
    std::string stored;
    int n_out = 0;  // of the tensor of the forward pass; 1 for vectors
    int n_in = 0;
    int stored_out = 0;  // of the stored one
    int stored_in = 0;
    Rows rows;
    float plus = 0.0F;
  };

  void place_all(std::span<const StoredTensor> names);
  void place(const std::string& block, std::string_view part, int layer, int n_out, int n_in,
             std::span<const StoredTensor> names);
  void find_prefix(std::span<const StoredTensor> names);
  void refuse_unknown(std::span<const std::string_view> unused) const;
  void read_stored(const Place& place, int first, int n, float* out) const;

  ModelConfig config_;
  std::unique_ptr<const TensorStore> store_;
  std::string prefix_;  // takes the place of a name's leading "model."
  std::map<StoredRows, std::map<int, Rows>> known_rows_;  // by the tensor's own rows
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace kvscope
