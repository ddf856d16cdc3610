// GGUF bytes in memory, in a buffer of exactly their size: AddressSanitizer sees any read beyond
// the end.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"

namespace kvscope::testing {

// Throws as GgufFile does; messages start with "m.gguf: ".
inline std::shared_ptr<const GgufFile> memory_gguf(std::string_view bytes) {
  const auto begin = reinterpret_cast<const std::byte*>(bytes.data());
  auto copy = std::make_shared<const std::vector<std::byte>>(begin, begin + bytes.size());
  const std::span<const std::byte> view(*copy);
  return std::make_shared<const GgufFile>("m.gguf", view, std::move(copy));
}

// What the DataError says; other exceptions pass, none gives "no error".
inline std::string data_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace kvscope::testing
