#include "runner/model/gguf_store.h"

#include <array>
#include <cstdint>
#include <string>

#include "runner/base/sha256.h"
#include "runner/model/dequantize.h"

namespace kvscope {
namespace {

std::string shape(const std::array<std::uint64_t, 4>& dims) {
  std::string text = "[";
  text += std::to_string(dims[0]);
  std::size_t n = dims.size();
  while (n > 1 && dims[n - 1] == 1) --n;
  for (std::size_t i = 1; i < n; ++i) text += ", " + std::to_string(dims[i]);
  return text + "]";
}

}  // namespace

std::vector<std::string_view> GgufStore::names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : file_->tensors()) names.push_back(name);
  return names;
}

void GgufStore::require(std::string_view tensor, int n_out, int n_in) const {
  const GgufTensor* stored = file_->tensor(tensor);
  if (stored == nullptr)
    fail("tensor " + kvscope::quoted(tensor) +
         " is missing; the file is incomplete, fetch it again");
  const std::array<std::uint64_t, 4> wanted = {std::uint64_t(n_in), std::uint64_t(n_out), 1, 1};
  if (stored->dims != wanted) {
    fail("tensor " + kvscope::quoted(tensor) + " has shape " + shape(stored->dims) + ", not " +
         shape(wanted) + "; the file contradicts itself, convert the model again");
  }
}

void GgufStore::read_rows(std::string_view tensor, int n_out, int n_in, int first, int n,
                          float* out) const {
  const GgufTensor& stored = *file_->tensor(tensor);
  // A row is a whole number of blocks (checked by the parser).
  const std::size_t row_bytes = stored.data.size() / static_cast<std::size_t>(n_out);
  dequantize(stored.type,
             stored.data.subspan(static_cast<std::size_t>(first) * row_bytes,
                                 static_cast<std::size_t>(n) * row_bytes),
             {out, static_cast<std::size_t>(n) * static_cast<std::size_t>(n_in)});
}

const std::string& GgufStore::sha256() const {
  std::call_once(hashed_, [this] { sha256_ = sha256_hex(file_->bytes()); });
  return sha256_;
}

}  // namespace kvscope
