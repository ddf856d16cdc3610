#include "runner/base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace kvscope {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Half a huge page or more is worth a whole one.
bool is_huge(std::size_t bytes) { return bytes >= kHugePage / 2; }

// `bytes` (whole huge pages) at the boundary of one.
std::byte* map_huge(std::size_t bytes) {
  void* mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t before =
      (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, kHugePage - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);  // a wish: failure costs only speed
  return begin + before;
}

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t bytes, Contents contents, Memory* memory)
    : bytes_(bytes), memory_(memory) {
  if (bytes == 0) return;
  if (memory_ != nullptr) {
    data_ = static_cast<std::byte*>(memory_->allocate(bytes, kPage));
    if (contents == Contents::kUndefined) return;
    try {
      memory_->zero(data_, bytes);
    } catch (...) {
      memory_->deallocate(data_, bytes, kPage);
      throw;
    }
    return;
  }
  if (is_huge(bytes)) {
    data_ = map_huge(round_up(bytes, kHugePage));
    return;  // the system's fresh memory is zero
  }
  const std::size_t allocated = round_up(bytes, kPage);
  data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, allocated));
  if (!data_) throw std::bad_alloc();
  if (contents == Contents::kZero) std::memset(data_, 0, allocated);
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr && memory_ != nullptr) {
    memory_->deallocate(data_, bytes_, kPage);
  } else if (data_ != nullptr && is_huge(bytes_)) {
    munmap(data_, round_up(bytes_, kHugePage));
  } else {
    std::free(data_);
  }
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      memory_(other.memory_) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(memory_, other.memory_);
  return *this;
}

}  // namespace kvscope
