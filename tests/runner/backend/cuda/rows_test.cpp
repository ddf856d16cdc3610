#include "runner/backend/cuda/rows.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "runner/backend/cpu/slots.h"
#include "runner/base/half.h"
#include "runner/cache/head_cache.h"
#include "tests/runner/backend/cuda/device_array.h"
#include "tests/runner/backend/cuda/device_pages.h"
#include "tests/runner/backend/cuda/floats.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

constexpr int kHeadDims[] = {2, 8, 16, 64, 80, 128, 256, 512};
constexpr int kPositions = 400;

class CudaRows : public DeviceTest {};

class CudaRowsOfFormat : public CudaRows, public ::testing::WithParamInterface<SlotFormat> {};
INSTANTIATE_TEST_SUITE_P(All, CudaRowsOfFormat, ::testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return name_of(info.param); });

// ---------------------------------------------------------------- append_rows

struct AppendCase {
  int head_dim;
  int n_heads;
  int n_kv_heads;
  int first_slot;
  int n_rows;
  int first_position;
};

void expect_appended(const AppendCase& c, SlotFormat format, bool has_values) {
  const PageShape shape = page_shape(c.head_dim, format, has_values);
  const DeviceRope rope(c.head_dim, kPositions);
  const int n_pages = (c.first_slot + c.n_rows + kPageSlots - 1) / kPageSlots;
  const int d = c.head_dim;
  const int row_floats = (c.n_heads + 2 * c.n_kv_heads) * d;
  const auto qkv = random_floats(std::size_t(c.n_rows) * row_floats, 2.0F, 1);
  const DeviceArray<float> device_qkv(qkv);
  std::vector<DevicePages> pages;
  std::vector<DeviceArray<std::byte*>> tables;
  std::vector<HeadSlots> heads;
  for (int h = 0; h < c.n_kv_heads; ++h) {
    pages.emplace_back(shape, n_pages);
    tables.emplace_back(pages.back().addresses());
    heads.push_back({tables.back().data(), nullptr, c.first_slot + c.n_rows});
  }
  const DeviceArray<HeadSlots> device_heads(heads);
  append_rows({device_heads.data(), device_qkv.data(), row_floats, c.n_heads, c.n_kv_heads,
               c.n_rows, c.first_slot, c.first_position},
              layout_of(shape), rope.rows(), nullptr);

  PagePool pool(shape);
  for (int h = 0; h < c.n_kv_heads; ++h) {
    HeadCache expected(&pool);
    for (int slot = 0; slot < c.first_slot + c.n_rows; ++slot) {
      expected.append_slot(slot, {});
      const int r = slot - c.first_slot;
      if (r < 0) continue;
      const float* key = qkv.data() + std::size_t(r) * row_floats + (c.n_heads + h) * d;
      std::optional<int> angle;
      if (c.first_position >= 0) angle = c.first_position + r;
      cpu::write_slot(expected, slot, key, key + c.n_kv_heads * d, rope.host, angle);
    }
    for (int p = 0; p < n_pages; ++p) {
      const std::vector<std::byte> page = pages[h].read(p);
      for (int lane = 0; lane < kPageSlots; ++lane) {
        const int slot = p * kPageSlots + lane;
        const bool is_written = slot >= c.first_slot && slot < c.first_slot + c.n_rows;
        const auto wanted = is_written ? slot_bytes(shape, pool.keys(expected.page_of(slot)), lane)
                                       : untouched_slot(shape);
        EXPECT_TRUE(slot_bytes(shape, page.data(), lane) == wanted)
            << "head " << h << " slot " << slot << " of " << c.first_slot << " + " << c.n_rows;
      }
    }
  }
}

TEST_P(CudaRowsOfFormat, AppendsTheBytesOfTheCpu) {
  for (const int first_slot : {0, 1, 31, 32, 33}) {
    for (const int n_rows : {1, 2, 31, 32, 33})
      expect_appended({16, 6, 2, first_slot, n_rows, first_slot + 5}, GetParam(), true);
  }
}

TEST_P(CudaRowsOfFormat, AppendsOtherShapes) {
  expect_appended({8, 3, 3, 7, 40, 0}, GetParam(), true);      // as many KV heads as heads
  expect_appended({64, 8, 1, 255, 3, 300}, GetParam(), true);  // one KV head
  expect_appended({80, 2, 2, 0, 257, 1}, GetParam(), true);    // many pages
  expect_appended({128, 2, 1, 5, 35, -1}, GetParam(), true);   // unrotated
  expect_appended({256, 1, 1, 31, 2, 9}, GetParam(), false);   // no values
  expect_appended({512, 1, 1, 30, 5, 9}, GetParam(), true);    // much shared memory
}

// ---------------------------------------------------------------- rotate_queries

TEST_F(CudaRows, RotatesQueriesBitForBitLikeTheCpu) {
  for (const int d : kHeadDims) {
    const DeviceRope rope(d, kPositions);
    for (const int n_heads : {1, 3, 8}) {
      for (const bool round : {false, true}) {
        constexpr int kRows = 5;
        constexpr int kFirst = 333;
        const std::size_t stride = std::size_t(n_heads + 2) * d;  // keys and values follow
        const auto qkv = random_floats(kRows * stride, 2.0F, unsigned(d));
        const DeviceArray<float> device_qkv(qkv);
        const DeviceArray<float> out(std::size_t(kRows) * n_heads * d);
        rotate_queries({device_qkv.data(), stride, n_heads, kRows, kFirst, 0.3F, round, out.data()},
                       d, rope.rows(), nullptr);
        std::vector<float> expected(std::size_t(kRows) * n_heads * d);
        for (int r = 0; r < kRows; ++r) {
          for (int h = 0; h < n_heads; ++h) {
            cpu::rotate_row(rope.host, qkv.data() + r * stride + h * d, kFirst + r, 0.3F,
                            expected.data() + (std::size_t(r) * n_heads + h) * d);
          }
        }
        if (round) {
          for (float& x : expected) x = from_bf16_bits(bf16_bits(x));
        }
        EXPECT_EQ(out.read(), expected) << d << " x " << n_heads;
      }
    }
  }
}

TEST_F(CudaRows, NoRowsAreAllowed) {
  const PageLayout layout = layout_of(page_shape(8, SlotFormat::kInt8));
  append_rows({}, layout, {}, nullptr);
  rotate_queries({}, 8, {}, nullptr);
  gpu_check(cudaDeviceSynchronize(), "nothing to do");
}

}  // namespace
}  // namespace kvscope::cuda
