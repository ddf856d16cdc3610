// Memory that the device and the host share (cudaMallocManaged), with a limit and an account. Large
// blocks come from the driver, small ones from a pool: the driver takes microseconds for each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "gpu_runtime.h"
#include "runner/base/memory.h"

namespace kvscope::cuda {

class UnifiedMemory final : public Memory {
 public:
  // limit_bytes: of this memory and of what charge() takes beside it.
  UnifiedMemory(int device, cudaStream_t stream, std::int64_t limit_bytes);
  ~UnifiedMemory() override;

  void copy(void* to, const void* from, std::size_t bytes) override;
  void zero(void* p, std::size_t bytes) override;
  void wait() override;

  // wait() where nothing may be thrown: what went wrong is said by the next call that may.
  void settle() noexcept;

  // Operations are under way from now on: the host must wait() before it touches anything.
  void started() { in_flight_ = true; }

  // True if the whole range lies in this memory. Kernels must not be handed anything else; the host
  // runs them in tests, where any pointer would do.
  bool owns(const void* p, std::size_t bytes) const;

  // Bytes of the device that are taken elsewhere (weights, scratch). Throws DeviceOutOfMemory
  // beyond the limit; negative gives back.
  void charge(std::int64_t bytes);
  std::int64_t limit_bytes() const { return limit_bytes_; }
  std::int64_t allocated_bytes() const;
  std::int64_t peak_bytes() const;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  void* take_small(std::size_t size_class);
  void* map(std::size_t bytes);
  void unmap(void* p, std::size_t bytes);

  const int device_;
  const cudaStream_t stream_;
  const std::int64_t limit_bytes_;
  bool in_flight_ = false;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocks_;  // from the driver, by start
  std::int64_t allocated_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  // Small blocks, by the power of two of their size: cut from slabs that are kept. The lists are
  // the host's own: what lies in shared memory would move there and back with every allocation.
  std::array<std::vector<void*>, 17> free_;
  std::vector<void*> slabs_;
};

}  // namespace kvscope::cuda
