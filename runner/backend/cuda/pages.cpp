#include "runner/backend/cuda/pages.h"

#include <stdexcept>

namespace kvscope::cuda {

namespace {

SlotFormat format_of(const PageShape& shape) {
  switch (shape.format) {
    case KvFormat::kInt8:
      return SlotFormat::kInt8;
    case KvFormat::kFp8E4M3:
      return SlotFormat::kFp8E4M3;
    case KvFormat::kFp8E5M2:
      return SlotFormat::kFp8E5M2;
    case KvFormat::kPlain:
      break;
  }
  switch (shape.dtype) {
    case DType::kF16:
      return SlotFormat::kF16;
    case DType::kBF16:
      return SlotFormat::kBF16;
    case DType::kF32:
      break;
  }
  return SlotFormat::kF32;
}

}  // namespace

PageLayout layout_of(const PageShape& shape) {
  // Kernels take dimensions in pairs.
  if (shape.head_dim <= 0 || shape.head_dim % 2 != 0)
    throw std::invalid_argument("head_dim must be even");
  return {shape.head_dim, format_of(shape), shape.has_values, std::uint32_t(shape.key_bytes())};
}

}  // namespace kvscope::cuda
