// The tensors of a GGUF file.
#pragma once

#include <memory>
#include <mutex>

#include "runner/model/gguf_file.h"
#include "runner/model/tensor_store.h"

namespace kvscope {

class GgufStore final : public TensorStore {
 public:
  explicit GgufStore(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {}

  bool has(std::string_view tensor) const override { return file_->tensor(tensor) != nullptr; }
  std::vector<std::string_view> names() const override;
  void require(std::string_view tensor, int n_out, int n_in) const override;
  void read_rows(std::string_view tensor, int n_out, int n_in, int first, int n,
                 float* out) const override;
  const std::string& sha256() const override;
  [[noreturn]] void fail(const std::string& what) const override { file_->fail(what); }

 private:
  std::shared_ptr<const GgufFile> file_;
  mutable std::once_flag hashed_;
  mutable std::string sha256_;
};

}  // namespace kvscope
