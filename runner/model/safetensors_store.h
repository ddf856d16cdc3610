// The tensors of a checkpoint folder: model.safetensors, or the shards that
// model.safetensors.index.json lists.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "runner/model/safetensors_file.h"
#include "runner/model/tensor_store.h"

namespace kvscope {

class SafetensorsStore final : public TensorStore {
 public:
  // Throws IoError, or DataError: no weights there, a shard outside the folder, a tensor listed in
  // another shard than it is in or in two.
  explicit SafetensorsStore(const std::filesystem::path& folder);

  bool has(std::string_view tensor) const override { return tensors_.contains(tensor); }
  std::vector<std::string_view> names() const override;
  void require(std::string_view tensor, int n_out, int n_in) const override;
  void read_rows(std::string_view tensor, int n_out, int n_in, int first, int n,
                 float* out) const override;
  const std::string& sha256() const override;  // of the shards' digests and config.json's
  [[noreturn]] void fail(const std::string& what) const override;

  const std::vector<std::shared_ptr<const SafetensorsFile>>& files() const { return files_; }

 private:
  void add(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::map<std::string_view, SafetensorsTensor> tensors_;
  mutable std::once_flag hashed_;
  mutable std::string sha256_;
};

}  // namespace kvscope
