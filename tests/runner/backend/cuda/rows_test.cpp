#include "runner/backend/cuda/rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
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

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kHeadDims[] = {2, 8, 16, 64, 80, 128, 256, 512};
constexpr int kPositions = 400;

class CudaRows : public DeviceTest {};

// The bytes that the CPU writes for one token.
std::vector<std::byte> cpu_slot(const PageShape& shape, const float* key, const float* value,
                                const RopeTable& rope, int angle) {
  PagePool pool(shape);
  HeadCache head(&pool);
  head.append_slot(0, {});
  cpu::write_slot(head, 0, key, value, rope, angle < 0 ? std::nullopt : std::optional<int>(angle));
  return slot_bytes(shape, pool.keys(head.page_of(0)), 0);
}

// ---------------------------------------------------------------- write_slots

TEST_F(CudaRows, WritesWhereThePageShapeSays) {
  const DevicePages pages(page_shape(4, SlotFormat::kF32), 1);
  const DeviceArray<float> token(std::vector<float>{1, 2, 3, 4, /*value*/ 5, 6, 7, 8});
  const DeviceArray<float> cos(std::vector<float>{1, 1, 0.5F, 0});  // [2 positions][2 pairs]
  const DeviceArray<float> sin(std::vector<float>{0, 0, 2, 1});
  const std::vector<SlotWrite> writes{{token.data(), token.data() + 4, pages.page(0), 3, -1},
                                      {token.data(), token.data() + 4, pages.page(0), 31, 1}};
  const DeviceArray<SlotWrite> device(writes);
  write_slots(device.data(), 2, layout_of(page_shape(4, SlotFormat::kF32)),
              {cos.data(), sin.data()}, nullptr);
  const std::vector<std::byte> bytes = pages.read(0);
  const auto* floats = reinterpret_cast<const float*>(bytes.data());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(floats[i * 32 + 3], float(i + 1));
    EXPECT_EQ(floats[4 * 32 + 3 * 4 + i], float(i + 5));
    EXPECT_EQ(floats[4 * 32 + 31 * 4 + i], float(i + 5));
  }
  EXPECT_EQ(floats[31], 1 * 0.5F - 2 * 2.0F);
  EXPECT_EQ(floats[32 + 31], 1 * 2.0F + 2 * 0.5F);
  EXPECT_EQ(floats[2 * 32 + 31], -4.0F);
  EXPECT_EQ(floats[3 * 32 + 31], 3.0F);
}

TEST_F(CudaRows, LiteralInt8Token) {
  const PageShape shape = page_shape(4, SlotFormat::kInt8);
  const DevicePages pages(shape, 1);
  // Scale 2; 1 and 5 are ties, rounded to even.
  const DeviceArray<float> token(std::vector<float>{254, 1, 5, -254, /*value*/ 0, 0, 0, 0});
  const DeviceArray<SlotWrite> writes(
      std::vector<SlotWrite>{{token.data(), token.data() + 4, pages.page(0), 7, -1}});
  write_slots(writes.data(), 1, layout_of(shape), {}, nullptr);
  const std::vector<std::byte> bytes = pages.read(0);
  EXPECT_EQ(std::int8_t(bytes[7]), 127);
  EXPECT_EQ(std::int8_t(bytes[32 + 7]), 0);
  EXPECT_EQ(std::int8_t(bytes[2 * 32 + 7]), 2);
  EXPECT_EQ(std::int8_t(bytes[3 * 32 + 7]), -127);
  EXPECT_EQ(shape.scales(bytes.data())[7], 2.0F);
  EXPECT_EQ(shape.scales(bytes.data() + shape.key_bytes())[7], 0.0F);
}

// A write of the test and where it goes.
struct Token {
  int page;
  int slot;
  int angle;
};

// Writes tokens [tokens][key | value] and compares every slot of the pages, written or not.
void expect_cpu_bytes(const PageShape& shape, const std::vector<Token>& tokens,
                      const std::vector<float>& rows, const DeviceRope& rope, int n_pages) {
  const std::size_t d = shape.head_dim;
  const DevicePages pages(shape, n_pages);
  const DeviceArray<float> device_rows(rows);
  std::vector<SlotWrite> writes;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const float* key = device_rows.data() + 2 * t * d;
    writes.push_back({key, shape.has_values ? key + d : nullptr, pages.page(tokens[t].page),
                      tokens[t].slot, tokens[t].angle});
  }
  const DeviceArray<SlotWrite> device(writes);
  write_slots(device.data(), int(writes.size()), layout_of(shape), rope.rows(), nullptr);
  for (int p = 0; p < n_pages; ++p) {
    const std::vector<std::byte> page = pages.read(p);
    for (int slot = 0; slot < kPageSlots; ++slot) {
      std::vector<std::byte> expected = untouched_slot(shape);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        if (tokens[t].page != p || tokens[t].slot != slot) continue;
        const float* key = rows.data() + 2 * t * d;
        expected = cpu_slot(shape, key, key + d, rope.host, tokens[t].angle);
      }
      EXPECT_TRUE(slot_bytes(shape, page.data(), slot) == expected)
          << "page " << p << " slot " << slot << " head_dim " << d;
    }
  }
}

class CudaRowsOfFormat : public CudaRows, public ::testing::WithParamInterface<SlotFormat> {};
INSTANTIATE_TEST_SUITE_P(All, CudaRowsOfFormat, ::testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(CudaRowsOfFormat, WritesTheBytesOfTheCpu) {
  // Neighbours share a word in bf16 pages; 8 and 9 are written by different blocks.
  const std::vector<Token> tokens{{0, 0, 0},   {0, 1, 399}, {1, 31, 7}, {1, 30, -1},
                                  {0, 8, 17},  {0, 17, -1}, {1, 0, 3},  {2, 5, 101},
                                  {0, 9, 250}, {2, 4, 101}, {1, 16, 1}};
  for (const int d : kHeadDims) {
    const DeviceRope rope(d, kPositions);
    for (const bool has_values : {true, false}) {
      expect_cpu_bytes(page_shape(d, GetParam(), has_values), tokens,
                       random_floats(2 * tokens.size() * d, 2.0F, unsigned(d)), rope, 3);
    }
  }
}

// Rows of zeros, with subnormals, beyond what a format can hold, not finite: every key and value of
// head_dim 8, stored unrotated.
TEST_P(CudaRowsOfFormat, WritesAwkwardValuesAsTheCpuDoes) {
  const float nan = std::bit_cast<float>(0xFF812345U);  // signalling, with a sign
  const std::vector<std::vector<float>> rows{
      {0, 0, 0, 0, 0, 0, 0, 0},
      {-0.0F, 0, 0, 0, -0.0F, 0, 0, 0},
      {1, 2, 3, nan, 5, 6, 7, 8},
      {1, 2, 3, 4, 5, 6, 7, -kInfinity},
      {490 * 0x1p-149F, 63000 * 0x1p-149F, 0, 0, 0, 0, 0, 0},  // scales round: codes saturate
      {490 * 0x1p-149F, 0x1p-149F, 0, 0, 0, 0, 0, 0},
      {0x1p-149F, 0x1p-140F, -0x1p-149F, 0, 0, 0, 0, 0},  // int8's scale becomes 0
      {0x1p-126F, 0x1p-127F, 0x1.FFCp-15F, 0, 1e-30F, 0, 0, 0},
      {0x1.FFFFFEp127F, 1e38F, -1e38F, 1, 0, 65519.0F, 65520.0F, -65504.0F},
      {448, 447, 232, 17, 0x1p-6F, 0x1p-9F, 0x1p-10F, 0x1.8p-10F},          // E4M3 of scale 1
      {57344, 53248, 9, 11, 0x1p-14F, 0x1p-16F, 0x1p-17F, 0x1.8p-17F},      // E5M2 of scale 1
      {127, 0.5F, 1.5F, -2.5F, 126.5F, -126.5F, 0.49999997F, 0x1p-30F},     // int8 of scale 1
      {0x1.01p0F, 0x1.03p0F, 0x1.002p0F, 0x1.006p0F, 0x1.FFFp0F, 1, 2, 3},  // ties of the halves
  };
  std::vector<Token> tokens;
  std::vector<float> flat;
  for (int t = 0; t < int(rows.size()); ++t) {
    tokens.push_back({0, t + 3, -1});
    const auto& value = rows[(t + 1) % rows.size()];
    flat.insert(flat.end(), rows[t].begin(), rows[t].end());
    flat.insert(flat.end(), value.begin(), value.end());
  }
  expect_cpu_bytes(page_shape(8, GetParam()), tokens, flat, DeviceRope(8, 2), 1);
}

// Every code of the 8-bit formats, from the middle of its neighbours as well.
TEST_P(CudaRowsOfFormat, WritesEveryValueNearACodeAsTheCpuDoes) {
  constexpr int kDim = 256;
  std::vector<float> rows;
  std::vector<Token> tokens;
  const float largest[] = {1, 1, 1, 127, 448, 57344};
  for (int t = 0; t < 8; ++t) {
    tokens.push_back({0, t, -1});
    for (int i = 0; i < 2 * kDim; ++i) {
      // Magnitudes spread evenly over the exponents, down to half the least code.
      const int code = (t * 2 * kDim + i) % 4096;
      const auto bits =
          std::uint32_t(code) << 19 | (i % 3 == 0 ? 1U : 0U) | (i % 5 == 0 ? 1U << 31 : 0U);
      const float x = std::bit_cast<float>(bits);
      rows.push_back(std::abs(x) <= largest[int(GetParam())] ? x : float(i % 128) + 0.5F);
    }
    rows[rows.size() - kDim] = rows[rows.size() - 2 * kDim] = largest[int(GetParam())];  // scale 1
  }
  expect_cpu_bytes(page_shape(kDim, GetParam()), tokens, rows, DeviceRope(kDim, 2), 1);
}

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
  write_slots(nullptr, 0, layout, {}, nullptr);
  append_rows({}, layout, {}, nullptr);
  rotate_queries({}, 8, {}, nullptr);
  gpu_check(cudaDeviceSynchronize(), "nothing to do");
}

}  // namespace
}  // namespace kvscope::cuda
