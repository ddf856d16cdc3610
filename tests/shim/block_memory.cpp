#include "tests/shim/block_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/shim/sanitizer_hooks.h"

namespace kvscope::shim {
namespace {

constexpr std::size_t kRedZone = 64;
constexpr std::size_t kRoom = kMostStaticBytes * 2;  // arrays, their padding and red zones

}  // namespace

char* BlockMemory::filled(std::size_t bytes, int fill) {
  void* p = nullptr;
  if (posix_memalign(&p, 128, bytes > 0 ? bytes : 1) != 0) throw std::bad_alloc();
  std::memset(p, fill, bytes);
  blocks_.push_back(p);
  return static_cast<char*>(p);
}

void BlockMemory::start_block(std::size_t dynamic_bytes, int fill) {
  dynamic_ = filled(dynamic_bytes, fill);
  dynamic_bytes_ = dynamic_bytes;
  static_ = filled(kRoom, fill);
  poison(static_, kRoom);
  static_used_ = static_bytes_ = 0;
  n_arrays_ = 0;
}

void* BlockMemory::array(const void* key, std::size_t bytes) {
  for (int i = 0; i < n_arrays_; ++i) {
    if (arrays_[i].key == key) return arrays_[i].p;
  }
  char* p = static_ + static_used_ + kRedZone;
  static_used_ += kRedZone + (bytes + kRedZone - 1) / kRedZone * kRedZone;
  static_bytes_ += bytes;
  if (n_arrays_ == kMostArrays || static_bytes_ > kMostStaticBytes ||
      static_used_ + kRedZone > kRoom)
    return nullptr;
  unpoison(p, bytes);
  arrays_[n_arrays_++] = {key, p};
  return p;
}

void BlockMemory::free_all() {
  for (void* p : blocks_) {
    unpoison(p, 1);
    std::free(p);
  }
  blocks_.clear();
}

}  // namespace kvscope::shim
