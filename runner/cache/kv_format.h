// How the slots of a page are stored. Kept apart from the model's element type: a plain page holds
// that type, the others hold one byte an element and one float32 scale a token and side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvscope {

enum class KvFormat : std::uint8_t { kPlain, kInt8, kFp8E4M3, kFp8E5M2 };

constexpr std::string_view name_of(KvFormat format) {
  switch (format) {
    case KvFormat::kInt8:
      return "int8";
    case KvFormat::kFp8E4M3:
      return "fp8_e4m3";
    case KvFormat::kFp8E5M2:
      return "fp8_e5m2";
    case KvFormat::kPlain:
      break;
  }
  return "plain";
}

}  // namespace kvscope
