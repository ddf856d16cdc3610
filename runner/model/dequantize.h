// Blocks of GGUF tensors to float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runner/model/tensor_type.h"

namespace kvscope {

float half_to_float(std::uint16_t bits);  // IEEE binary16, exact

// out.size() is a whole number of blocks of `type`, blocks.size() their bytes (asserted). Every
// operation is one float32 operation in the order scale · quant (± offset), so that the result is
// the same on every machine.
void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace kvscope
