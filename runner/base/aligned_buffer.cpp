#include "runner/base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace kvscope {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t bytes, Contents contents) : bytes_(bytes) {
  if (bytes == 0) return;
  // Half a huge page or more is worth a whole one.
  const std::size_t page = bytes >= kHugePage / 2 ? kHugePage : kPage;
  const std::size_t allocated = round_up(bytes, page);
  data_ = static_cast<std::byte*>(std::aligned_alloc(page, allocated));
  if (!data_) throw std::bad_alloc();
  if (page == kHugePage)
    madvise(data_, allocated, MADV_HUGEPAGE);  // a wish: failure costs only speed
  if (contents == Contents::kZero) std::memset(data_, 0, allocated);
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace kvscope
