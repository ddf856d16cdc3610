// Memory that the device and the host share (cudaMallocManaged), with a limit and an account. Large
// blocks come from the driver, small ones from a pool: the driver takes microseconds for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <mutex>

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
  class Driver final : public std::pmr::memory_resource {  // what the pool takes from
   public:
    explicit Driver(UnifiedMemory& memory) : memory_(memory) {}

   private:
    void* do_allocate(std::size_t bytes, std::size_t) override { return memory_.map(bytes); }
    void do_deallocate(void* p, std::size_t bytes, std::size_t) override {
      memory_.unmap(p, bytes);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override {
      return this == &other;
    }
    UnifiedMemory& memory_;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
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
  Driver driver_{*this};
  std::pmr::synchronized_pool_resource small_{&driver_};
};

}  // namespace kvscope::cuda
