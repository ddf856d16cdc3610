#include "runner/backend/cuda/unified_memory.h"

#include <algorithm>
#include <bit>
#include <string>

#include "runner/backend/cuda/cuda_error.h"

namespace kvscope::cuda {
namespace {

constexpr std::size_t kSmall = std::size_t{64} << 10;  // from here on the driver's own
constexpr std::size_t kSlab = std::size_t{2} << 20;
constexpr std::size_t kLeast = 64;

std::size_t size_class(std::size_t bytes) {
  return std::size_t(std::bit_width(std::max(bytes, kLeast) - 1));
}

std::string mib(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

UnifiedMemory::UnifiedMemory(int device, cudaStream_t stream, std::int64_t limit_bytes)
    : device_(device), stream_(stream), limit_bytes_(limit_bytes) {}

UnifiedMemory::~UnifiedMemory() {
  for (void* slab : slabs_) unmap(slab, kSlab);
}

void UnifiedMemory::copy(void* to, const void* from, std::size_t bytes) {
  gpu_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  started();
}

void UnifiedMemory::zero(void* p, std::size_t bytes) {
  gpu_check(cudaMemsetAsync(p, 0, bytes, stream_), "cudaMemsetAsync");
  started();
}

void UnifiedMemory::wait() {
  if (!in_flight_) return;
  gpu_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  in_flight_ = false;
}

void UnifiedMemory::settle() noexcept {
  if (in_flight_ && cudaStreamSynchronize(stream_) == cudaSuccess) in_flight_ = false;
}

bool UnifiedMemory::owns(const void* p, std::size_t bytes) const {
  if (bytes == 0) return true;
  const auto* begin = static_cast<const std::byte*>(p);
  const std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(begin);
  if (after == blocks_.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return begin + bytes <= start + size;
}

void UnifiedMemory::charge(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (allocated_bytes_ + bytes > limit_bytes_) {
    throw DeviceOutOfMemory("device memory: " + mib(bytes) + " more do not fit beside " +
                            mib(allocated_bytes_) + " of " + mib(limit_bytes_));
  }
  allocated_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, allocated_bytes_);
}

std::int64_t UnifiedMemory::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

std::int64_t UnifiedMemory::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

// Blocks are aligned to their class, slabs and the driver's blocks to more than anyone asks for.
void* UnifiedMemory::do_allocate(std::size_t bytes, std::size_t /*alignment*/) {
  return bytes < kSmall ? take_small(size_class(bytes)) : map(bytes);
}

void UnifiedMemory::do_deallocate(void* p, std::size_t bytes, std::size_t /*alignment*/) {
  if (bytes >= kSmall) return unmap(p, bytes);
  settle();  // the next owner may be the host, which writes at once
  const std::lock_guard lock(mutex_);
  free_[size_class(bytes)].push_back(p);
}

void* UnifiedMemory::take_small(std::size_t size_class) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& blocks = free_[size_class];
    if (!blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      return block;
    }
  }
  auto* slab = static_cast<std::byte*>(map(kSlab));
  const std::lock_guard lock(mutex_);
  slabs_.push_back(slab);
  const std::size_t bytes = std::size_t{1} << size_class;
  for (std::size_t at = bytes; at < kSlab; at += bytes) free_[size_class].push_back(slab + at);
  return slab;
}

void* UnifiedMemory::map(std::size_t bytes) {
  charge(std::int64_t(bytes));
  void* p = nullptr;
  try {
    gpu_check(cudaMallocManaged(&p, bytes), "cudaMallocManaged");
    prefer_device(p, bytes, device_);
    prefetch_to_device(p, bytes, device_, stream_);
    const std::lock_guard lock(mutex_);
    blocks_.emplace(static_cast<const std::byte*>(p), bytes);
  } catch (...) {
    if (p != nullptr) cudaFree(p);
    charge(-std::int64_t(bytes));
    throw;
  }
  return p;
}

void UnifiedMemory::unmap(void* p, std::size_t bytes) {
  settle();  // nothing reads it any more
  {
    const std::lock_guard lock(mutex_);
    blocks_.erase(static_cast<const std::byte*>(p));
    allocated_bytes_ -= std::int64_t(bytes);
  }
  cudaFree(p);  // what it could say is said by the next call that may fail
}

}  // namespace kvscope::cuda
