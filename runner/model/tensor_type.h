// Element types of GGUF tensors: numbers of the format, names and block sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvscope {

enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30
};

// A row is a whole number of blocks.
struct BlockFormat {
  TensorType type;
  const char* name;
  std::uint32_t elements;  // per block
  std::uint32_t bytes;     // per block
};

std::optional<BlockFormat> block_format(std::uint32_t type_number);  // none: not supported
std::string tensor_type_name(std::uint32_t type_number);             // also of types not supported
std::string supported_tensor_types();                                // "F32, F16, …"

}  // namespace kvscope
