// Memory that the host and a backend's kernels both touch. A backend that computes where it cannot
// reach ordinary memory hands out its own (Backend::memory()); elsewhere the pointer is null and
// buffers come from the process.
//
// Such memory may be read or written by host code only while no operation on it is under way: after
// Backend::sync(), or after an operation that says it returns finished.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvscope {

class Memory : public std::pmr::memory_resource {  // allocate() throws std::bad_alloc
 public:
  // Copies within this memory, in order with the backend's operations; may return before it is
  // done.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* p, std::size_t bytes) = 0;  // likewise
  virtual void wait() = 0;  // until nothing on it is under way: Backend::sync()
};

inline void copy_bytes(Memory* memory, void* to, const void* from, std::size_t bytes) {
  if (memory == nullptr) {
    std::memcpy(to, from, bytes);
  } else {
    memory->copy(to, from, bytes);
  }
}

// Allocates from a Memory, or from the process where there is none. Elements that are made without
// a value stay unwritten: a vector that grows does not touch what a kernel will fill.
template <class T>
class SharedAllocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  SharedAllocator() = default;
  SharedAllocator(Memory* memory) : memory_(memory) {}  // NOLINT: implicit, like pmr's
  template <class U>
  SharedAllocator(const SharedAllocator<U>& other) : memory_(other.memory()) {}

  T* allocate(std::size_t n) {
    if (memory_ == nullptr) return std::allocator<T>().allocate(n);
    return static_cast<T*>(memory_->allocate(n * sizeof(T), alignof(T)));
  }
  void deallocate(T* p, std::size_t n) {
    if (memory_ == nullptr) return std::allocator<T>().deallocate(p, n);
    memory_->deallocate(p, n * sizeof(T), alignof(T));
  }
  template <class U, class... Arguments>
  void construct(U* p, Arguments&&... arguments) {
    if constexpr (sizeof...(Arguments) == 0) {
      ::new (static_cast<void*>(p)) U;
    } else {
      ::new (static_cast<void*>(p)) U(std::forward<Arguments>(arguments)...);
    }
  }

  Memory* memory() const { return memory_; }
  template <class U>
  bool operator==(const SharedAllocator<U>& other) const {
    return memory_ == other.memory();
  }

 private:
  Memory* memory_ = nullptr;
};

// resize() leaves new elements unwritten; resize(n, value) and assign() write them.
template <class T>
using SharedVector = std::vector<T, SharedAllocator<T>>;

}  // namespace kvscope
