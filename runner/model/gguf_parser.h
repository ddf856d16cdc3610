// Walks a GGUF file from its first byte and checks all that it says before it is used.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "runner/model/gguf_file.h"

namespace kvscope {

struct GgufIndex {
  std::map<std::string_view, GgufValue> values;
  std::map<std::string_view, GgufTensor> tensors;
};

// Throws DataError whose message starts with `name`.
GgufIndex parse_gguf(const std::string& name, std::span<const std::byte> bytes);

// Bytes of one number of this type; 0 for strings and arrays.
std::size_t scalar_bytes(GgufType type);

}  // namespace kvscope
