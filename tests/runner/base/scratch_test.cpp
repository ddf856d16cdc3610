#include "runner/base/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace kvscope {
namespace {

TEST(AlignedBuffer, IsZeroedUnlessToldOtherwiseAndStartsAtAPage) {
  const AlignedBuffer small(100);
  EXPECT_EQ(small.size(), 100U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % 4096, 0U);
  EXPECT_TRUE(
      std::all_of(small.data(), small.data() + 100, [](std::byte b) { return b == std::byte{0}; }));
  const AlignedBuffer large(std::size_t{3} << 20, AlignedBuffer::Contents::kUndefined);
  EXPECT_EQ(large.size(), std::size_t{3} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % (std::size_t{2} << 20), 0U);
  EXPECT_EQ(AlignedBuffer().data(), nullptr);
}

TEST(Scratch, KeepsItsMemoryUntilMoreIsAskedFor) {
  Scratch scratch;
  EXPECT_TRUE(scratch.floats(0).empty());
  const std::span<float> first = scratch.floats(1000);
  ASSERT_EQ(first.size(), 1000U);
  first[999] = 5.0F;
  const std::span<float> again = scratch.floats(1000);
  EXPECT_EQ(again.data(), first.data());
  EXPECT_EQ(again[999], 5.0F);
  EXPECT_EQ(scratch.floats(10).data(), first.data());
  EXPECT_EQ(scratch.floats(10).size(), 10U);
  EXPECT_EQ(scratch.floats(2'000'000).size(), 2'000'000U);
}

}  // namespace
}  // namespace kvscope
