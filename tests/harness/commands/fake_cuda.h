// A machine with CUDA devices that computes on the CPU: what the program makes of devices, without
// one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runner/backend/cuda/cuda_backend.h"
#include "tests/runner/backend/forwarding_backend.h"

namespace kvscope::testing {

inline CudaDevice fake_device(int index, double free_gib = 100.0, std::string unusable = "") {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  return {.index = index,
          .name = "Fake " + std::to_string(index),
          .compute_capability = 90,
          .total_bytes = std::int64_t(141 * kGib),
          .free_bytes = std::int64_t(free_gib * kGib),
          .unusable = std::move(unusable)};
}

// The memory of a device: pages of keys and values, all that tests need to run out of.
struct FakeMemory {
  std::int64_t limit_bytes = std::int64_t{1} << 60;
  std::int64_t held_bytes = 0;  // when it was last looked at
  std::int64_t peak_bytes = 0;
};

struct OutOfFakeMemory : std::bad_alloc {
  const char* what() const noexcept override { return "device 0 is full"; }
};

// The CPU under another name, with an account of pages. Not of the pages that a call takes: of
// those that are held after it.
class FakeCudaBackend final : public ForwardingBackend {
 public:
  explicit FakeCudaBackend(std::shared_ptr<FakeMemory> memory)
      : ForwardingBackend(make_cpu_backend(1)), memory_(std::move(memory)) {}

  std::string_view name() const override { return "cuda"; }
  std::optional<DeviceMemory> device_memory() const override {
    return DeviceMemory{memory_->held_bytes, memory_->peak_bytes, memory_->peak_bytes + 4096};
  }
  void attend_dense(const AttentionShape& shape, const RopeTable& rope,
                    const DenseJob& job) override {
    ForwardingBackend::attend_dense(shape, rope, job);
    if (job.n_rows > 0) account(job.heads[0].pool());
  }
  void gather(const AttentionShape& shape, const RopeTable& rope,
              std::span<const GatherJob> jobs) override {
    ForwardingBackend::gather(shape, rope, jobs);
    if (!jobs.empty()) account(jobs[0].head->pool());
  }
  void scan(const AttentionShape& shape, const RopeTable& rope,
            std::span<const ScanJob> jobs) override {
    ForwardingBackend::scan(shape, rope, jobs);
    if (!jobs.empty()) account(jobs[0].heads[0].pool());
  }

 private:
  void account(const PagePool& pool) {
    memory_->held_bytes = pool.held_pages() * std::int64_t(pool.shape().page_bytes());
    memory_->peak_bytes = std::max(memory_->peak_bytes, memory_->held_bytes);
    if (memory_->held_bytes > memory_->limit_bytes) throw OutOfFakeMemory();
  }

  std::shared_ptr<FakeMemory> memory_;
};

inline CudaSupport fake_cuda(std::vector<CudaDevice> devices,
                             std::shared_ptr<FakeMemory> memory = std::make_shared<FakeMemory>()) {
  CudaSupport cuda;
  cuda.is_built = true;
  cuda.description = "made up";
  cuda.devices = [devices](std::string& why) {
    if (devices.empty()) why = "no NVIDIA driver: install one";
    return devices;
  };
  cuda.open = [memory](const CudaOptions&) { return std::make_unique<FakeCudaBackend>(memory); };
  return cuda;
}

}  // namespace kvscope::testing
