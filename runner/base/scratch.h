// Memory for values that are written before they are read: kept from call to call, never cleared.
#pragma once

#include <cstddef>
#include <span>

#include "runner/base/aligned_buffer.h"

namespace kvscope {

class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(Memory* memory) : memory_(memory) {}

  // n floats with undefined contents; the span of an earlier call is void if this one is larger.
  std::span<float> floats(std::size_t n) {
    if (buffer_.size() < n * sizeof(float)) {
      buffer_ = AlignedBuffer();  // the old one goes before the new one comes
      buffer_ = AlignedBuffer(n * sizeof(float), AlignedBuffer::Contents::kUndefined, memory_);
    }
    return {buffer_.as<float>(), n};
  }

  void release() { buffer_ = AlignedBuffer(); }

 private:
  Memory* memory_ = nullptr;
  AlignedBuffer buffer_;
};

}  // namespace kvscope
