#include "runner/backend/cuda/unified_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "runner/backend/cuda/cuda_error.h"
#include "runner/backend/cuda/device_buffer.h"
#include "runner/backend/cuda/uploads.h"
#include "tests/runner/backend/cuda/device_array.h"

namespace kvscope::cuda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

using CudaMemory = testing::DeviceTest;

TEST_F(CudaMemory, KnowsWhatIsItsOwn) {
  UnifiedMemory memory(0, nullptr, 64 * kMiB);
  SharedVector<float> large(std::size_t(100'000), 1.0F, &memory);
  SharedVector<float> small(std::size_t(3), 1.0F, &memory);
  std::vector<float> foreign(3);
  EXPECT_TRUE(memory.owns(large.data(), large.size() * sizeof(float)));
  EXPECT_TRUE(memory.owns(large.data() + 99'999, sizeof(float)));
  EXPECT_FALSE(memory.owns(large.data() + 99'999, 2 * sizeof(float)));
  EXPECT_TRUE(memory.owns(small.data(), 3 * sizeof(float)));
  EXPECT_FALSE(memory.owns(foreign.data(), 3 * sizeof(float)));
  EXPECT_TRUE(memory.owns(nullptr, 0));
}

TEST_F(CudaMemory, CountsWhatIsHeldAndRefusesMore) {
  UnifiedMemory memory(0, nullptr, 8 * kMiB);
  {
    const SharedVector<float> half(std::size_t(kMiB), 0.0F, &memory);  // 4 MiB
    EXPECT_EQ(memory.allocated_bytes(), 4 * kMiB);
    DeviceBuffer weights(memory, 3 * kMiB);
    EXPECT_EQ(memory.allocated_bytes(), 7 * kMiB);
    EXPECT_THROW(SharedVector<float>(std::size_t(kMiB), 0.0F, &memory), DeviceOutOfMemory);
    EXPECT_THROW(weights.get<std::byte>(5 * kMiB), std::bad_alloc);
    EXPECT_EQ(memory.allocated_bytes(), 4 * kMiB);  // the old buffer went first
  }
  EXPECT_EQ(memory.allocated_bytes(), 0);
  EXPECT_EQ(memory.peak_bytes(), 7 * kMiB);
}

TEST_F(CudaMemory, SmallBlocksAreKeptForTheNext) {
  UnifiedMemory memory(0, nullptr, 64 * kMiB);
  const float* first = nullptr;
  {
    const SharedVector<float> small(std::size_t(100), 0.0F, &memory);
    first = small.data();
  }
  EXPECT_EQ(memory.allocated_bytes(), 2 * kMiB);  // what small blocks are cut from
  const SharedVector<float> next(std::size_t(120), 0.0F, &memory);  // rounded up, the same size
  EXPECT_EQ(next.data(), first);
  for (int i = 0; i < 100; ++i) {
    const SharedVector<float> sizes(std::size_t(1 + 160 * i), float(i), &memory);
    EXPECT_EQ(sizes.back(), float(i));
  }
}

TEST_F(CudaMemory, CopiesInOrderAndWaits) {
  UnifiedMemory memory(0, nullptr, 64 * kMiB);
  SharedVector<int> from(std::size_t(1000), 7, &memory);
  SharedVector<int> to(std::size_t(1000), 1, &memory);
  memory.copy(to.data(), from.data(), 1000 * sizeof(int));
  memory.zero(from.data(), 1000 * sizeof(int));
  memory.wait();
  EXPECT_EQ(to[999], 7);
  EXPECT_EQ(from[999], 0);
}

TEST_F(CudaMemory, UploadsHandOutAddressesBeforeTheySend) {
  UnifiedMemory memory(0, nullptr, 64 * kMiB);
  Uploads uploads(memory, nullptr);
  for (int round = 0; round < 50; ++round) {  // blocks come back when they have been read
    Uploads::Batch batch(uploads);
    const std::vector<int> values(100'000, round);
    const int* first = batch.add(values);
    const std::vector<const int*> table{first, first + 1};
    const int* const* second = batch.add(table);
    batch.send();
    std::vector<int> read(values.size());
    std::vector<const int*> read_table(2);
    gpu_check(cudaMemcpy(read.data(), first, read.size() * sizeof(int), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    gpu_check(cudaMemcpy(read_table.data(), second, 2 * sizeof(int*), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    EXPECT_EQ(read, values);
    EXPECT_EQ(read_table, table);
  }
  EXPECT_LE(memory.peak_bytes(), 4 * kMiB);
}

}  // namespace
}  // namespace kvscope::cuda
