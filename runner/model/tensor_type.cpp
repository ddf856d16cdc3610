#include "runner/model/tensor_type.h"

#include <array>
#include <utility>

namespace kvscope {
namespace {

constexpr std::array<BlockFormat, 15> kFormats = {{
    {TensorType::kF32, "F32", 1, 4},
    {TensorType::kF16, "F16", 1, 2},
    {TensorType::kBF16, "BF16", 1, 2},
    {TensorType::kQ4_0, "Q4_0", 32, 2 + 16},
    {TensorType::kQ4_1, "Q4_1", 32, 2 + 2 + 16},
    {TensorType::kQ5_0, "Q5_0", 32, 2 + 4 + 16},
    {TensorType::kQ5_1, "Q5_1", 32, 2 + 2 + 4 + 16},
    {TensorType::kQ8_0, "Q8_0", 32, 2 + 32},
    {TensorType::kQ2_K, "Q2_K", 256, 16 + 64 + 2 + 2},
    {TensorType::kQ3_K, "Q3_K", 256, 32 + 64 + 12 + 2},
    {TensorType::kQ4_K, "Q4_K", 256, 2 + 2 + 12 + 128},
    {TensorType::kQ5_K, "Q5_K", 256, 2 + 2 + 12 + 32 + 128},
    {TensorType::kQ6_K, "Q6_K", 256, 128 + 64 + 16 + 2},
    {TensorType::kIQ4_NL, "IQ4_NL", 32, 2 + 16},
    {TensorType::kIQ4_XS, "IQ4_XS", 256, 2 + 2 + 4 + 128},
}};

// Only so that a refusal can say what the file holds.
constexpr std::array<std::pair<std::uint32_t, const char*>, 14> kOtherNames = {{{9, "Q8_1"},
                                                                                {15, "Q8_K"},
                                                                                {16, "IQ2_XXS"},
                                                                                {17, "IQ2_XS"},
                                                                                {18, "IQ3_XXS"},
                                                                                {19, "IQ1_S"},
                                                                                {21, "IQ3_S"},
                                                                                {22, "IQ2_S"},
                                                                                {24, "I8"},
                                                                                {25, "I16"},
                                                                                {26, "I32"},
                                                                                {27, "I64"},
                                                                                {28, "F64"},
                                                                                {29, "IQ1_M"}}};

}  // namespace

std::optional<BlockFormat> block_format(std::uint32_t type_number) {
  for (const BlockFormat& format : kFormats) {
    if (static_cast<std::uint32_t>(format.type) == type_number) return format;
  }
  return std::nullopt;
}

std::string tensor_type_name(std::uint32_t type_number) {
  if (const auto format = block_format(type_number)) return format->name;
  for (const auto& [number, name] : kOtherNames) {
    if (number == type_number) return name;
  }
  return "number " + std::to_string(type_number);
}

std::string supported_tensor_types() {
  std::string names;
  for (const BlockFormat& format : kFormats) {
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  return names;
}

}  // namespace kvscope
