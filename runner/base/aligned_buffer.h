// Bytes at a page boundary. Large ones sit on 2 MiB pages where the system grants them: streaming
// weights from 4 KiB pages costs up to half of the memory bandwidth in a virtual machine, and
// first touches cost a fault each.
#pragma once

#include <cstddef>

#include "runner/base/memory.h"

namespace kvscope {

class AlignedBuffer {
 public:
  enum class Contents { kZero, kUndefined };  // undefined: no pass over memory that is written next

  AlignedBuffer() = default;
  // memory: where from; nullptr: the process. Throws std::bad_alloc.
  explicit AlignedBuffer(std::size_t bytes, Contents contents = Contents::kZero,
                         Memory* memory = nullptr);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Memory* memory_ = nullptr;
};

}  // namespace kvscope
