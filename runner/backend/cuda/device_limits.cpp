#include "runner/backend/cuda/device_limits.h"

#include <cublas_v2.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "runner/backend/cuda/cuda_matrix.h"
#include "runner/backend/cuda/device_backend.h"
#include "runner/base/half.h"
#include "runner/base/splitmix.h"

namespace kvscope::cuda {
namespace {

class Limits {
 public:
  Limits(int device, const LimitSizes& sizes)
      : sizes_(sizes),
        stream_(device),
        memory_(device, stream_.get(), std::numeric_limits<std::int64_t>::max()) {}

  double copy_bytes_per_second() {
    const std::size_t n = sizes_.copy_bytes;
    const DeviceBuffer from(memory_, n);
    const DeviceBuffer to(memory_, n);
    fill(from, DType::kF32);
    const double seconds = best_seconds([&] {
      gpu_check(cudaMemcpyAsync(to.data(), from.data(), n, cudaMemcpyDeviceToDevice, stream()),
                "cudaMemcpyAsync");
    });
    return 2.0 * double(n) / seconds;  // read and written
  }

  double flops_per_second(DType dtype) {
    const int n = sizes_.product_size;
    const std::size_t values = std::size_t(n) * n;
    const DeviceBuffer weights(memory_, values * element_bytes(dtype));
    const DeviceBuffer rows(memory_, values * element_bytes(dtype));
    const DeviceBuffer product(memory_, values * sizeof(float));
    fill(weights, dtype);
    fill(rows, dtype);
    const Products products(memory_, stream());
    const double seconds = best_seconds([&] {
      products.multiply_at_once(weights.data(), rows.data(), n, n, n, dtype,
                                static_cast<float*>(product.data()));
    });
    return 2.0 * double(values) * n / seconds;
  }

 private:
  cudaStream_t stream() const { return stream_.get(); }

  // Values of [-1, 1): a device is slower on them than on zeros.
  void fill(const DeviceBuffer& buffer, DType dtype) {
    constexpr std::size_t kBlockValues = std::size_t{1} << 20;
    const std::size_t element = element_bytes(dtype);
    std::vector<float> wide(std::min(kBlockValues, buffer.size() / element));
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = float(smix(i) >> 40) * 0x1p-23F - 1.0F;
    std::vector<std::uint16_t> narrow;
    if (dtype == DType::kBF16) {
      for (const float value : wide) narrow.push_back(bf16_bits(value));
    }
    const void* block = narrow.empty() ? static_cast<const void*>(wide.data()) : narrow.data();
    const std::size_t block_bytes = wide.size() * element;
    for (std::size_t first = 0; first < buffer.size(); first += block_bytes) {
      gpu_check(cudaMemcpyAsync(static_cast<std::byte*>(buffer.data()) + first, block,
                                std::min(block_bytes, buffer.size() - first),
                                cudaMemcpyHostToDevice, stream()),
                "cudaMemcpyAsync");
    }
    wait();
  }

  void wait() { gpu_check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

  // Of one call of `work`: several are timed together, so that a launch's own time does not count.
  template <class Work>
  double best_seconds(const Work& work) {
    constexpr int kCalls = 4;
    double best = std::numeric_limits<double>::infinity();
    work();
    wait();
    for (int round = 0; round < sizes_.rounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) work();
      wait();
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count() / kCalls);
    }
    return best;
  }

  LimitSizes sizes_;
  Stream stream_;
  UnifiedMemory memory_;
};

}  // namespace

CudaLimits measure_device_limits(int device, const LimitSizes& sizes) {
  Limits limits(device, sizes);
  CudaLimits found;
  found.copy_bytes_per_second = limits.copy_bytes_per_second();
  found.f32_flops_per_second = limits.flops_per_second(DType::kF32);
  found.bf16_flops_per_second = limits.flops_per_second(DType::kBF16);
  return found;
}

}  // namespace kvscope::cuda
