// What was allocated through the runtime, and of which kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace kvscope::shim {

enum class MemoryKind { kDevice, kManaged, kPinned };

class Allocations {
 public:
  // nullptr where it does not fit into limit_bytes (pinned memory is the host's, without a limit).
  void* allocate(std::size_t bytes, MemoryKind kind, std::size_t limit_bytes);
  // False: no block of one of these kinds starts here.
  bool free(void* p, bool pinned);
  std::size_t device_bytes() const;
  bool knows(const void* p) const;  // in any block
  // False where the range starts in a block and leaves it.
  bool holds_or_unknown(const void* p, std::size_t bytes) const;

 private:
  struct Block {
    std::size_t bytes;
    MemoryKind kind;
    unsigned char fill;
  };
  static constexpr std::size_t kGuardBytes = 64;
  static std::size_t guard_bytes();
  static void require_guard(const unsigned char* p, const Block& block);
  // Keys are complements of addresses: the leak checker must not take this table for a use.
  static std::uintptr_t key_of(const void* p) { return ~reinterpret_cast<std::uintptr_t>(p); }
  std::map<std::uintptr_t, Block>::const_iterator block_with(const void* p) const;

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  std::size_t device_bytes_ = 0;
};

Allocations& allocations();

}  // namespace kvscope::shim
