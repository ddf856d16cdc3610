#include "tests/shim/allocations.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/shim/engine.h"
#include "tests/shim/sanitizer_hooks.h"

namespace kvscope::shim {

Allocations& allocations() {
  static Allocations one;
  return one;
}

// Exact sizes under ASan, which sees every access beyond a block. Elsewhere a block is followed by
// more of what fresh memory holds, and who stored there is found out when the block is freed.
void* Allocations::allocate(std::size_t bytes, MemoryKind kind, std::size_t limit_bytes) {
  const std::lock_guard lock(mutex_);
  const bool on_device = kind != MemoryKind::kPinned;
  if (on_device && (bytes > limit_bytes || device_bytes_ > limit_bytes - bytes)) return nullptr;
  void* p = nullptr;
  const std::size_t room = bytes + guard_bytes();
  if (posix_memalign(&p, 256, room > 0 ? room : 1) != 0) return nullptr;
  std::memset(p, config().fill, room);
  blocks_.emplace(key_of(p), Block{bytes, kind, static_cast<unsigned char>(config().fill)});
  if (on_device) device_bytes_ += bytes;
  return p;
}

std::size_t Allocations::guard_bytes() {
  return __asan_poison_memory_region != nullptr ? 0 : kGuardBytes;
}

// Memory is freed in destructors, where nothing can be thrown, and what else was hit is unknown.
void Allocations::require_guard(const unsigned char* p, const Block& block) {
  for (std::size_t i = 0; i < guard_bytes(); ++i) {
    if (p[block.bytes + i] == block.fill) continue;
    std::fprintf(stderr, "shim: something was stored %zu bytes beyond the end of %zu bytes\n",
                 i + 1, block.bytes);
    std::abort();
  }
}

bool Allocations::free(void* p, bool pinned) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(key_of(p));
  if (block == blocks_.end() || (block->second.kind == MemoryKind::kPinned) != pinned) return false;
  if (!pinned) device_bytes_ -= block->second.bytes;
  require_guard(static_cast<const unsigned char*>(p), block->second);
  blocks_.erase(block);
  std::free(p);
  return true;
}

std::size_t Allocations::device_bytes() const {
  const std::lock_guard lock(mutex_);
  return device_bytes_;
}

std::map<std::uintptr_t, Allocations::Block>::const_iterator Allocations::block_with(
    const void* p) const {
  // Complements run backwards: the first key not below that of p is the last block not beyond p.
  const auto block = blocks_.lower_bound(key_of(p));
  if (block == blocks_.end()) return block;
  const std::uintptr_t offset = block->first - key_of(p);
  return offset < block->second.bytes ? block : blocks_.end();
}

bool Allocations::knows(const void* p) const {
  const std::lock_guard lock(mutex_);
  return block_with(p) != blocks_.end();
}

bool Allocations::holds_or_unknown(const void* p, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto block = block_with(p);
  if (block == blocks_.end()) return true;
  return bytes <= block->second.bytes - (block->first - key_of(p));
}

}  // namespace kvscope::shim
