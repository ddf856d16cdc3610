// Element types in which weights and cached keys/values are held. Arithmetic is always float32.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvscope {

enum class DType { kF32, kBF16, kF16 };

constexpr std::size_t element_bytes(DType t) { return t == DType::kF32 ? 4 : 2; }
constexpr std::string_view name_of(DType t) {
  return t == DType::kF32 ? "f32" : t == DType::kBF16 ? "bf16" : "f16";
}

}  // namespace kvscope
