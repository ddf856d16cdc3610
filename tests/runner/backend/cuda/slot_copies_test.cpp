#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runner/backend/cpu/slots.h"
#include "runner/backend/cuda/rows.h"
#include "runner/cache/head_cache.h"
#include "runner/cache/kv_codec.h"
#include "runner/cache/page_slots.h"
#include "tests/runner/backend/cuda/device_array.h"
#include "tests/runner/backend/cuda/device_pages.h"
#include "tests/runner/backend/cuda/floats.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

// n_pages pages of the pool with random tokens in all slots; bytes written by the CPU.
void fill_pages(const PagePool& pool, const std::vector<PageId>& pages, unsigned seed) {
  const auto d = std::size_t(pool.shape().head_dim);
  const auto x = random_floats(2 * d * kPageSlots * pages.size(), 2.0F, seed);
  const float* row = x.data();
  for (const PageId page : pages) {
    for (int slot = 0; slot < kPageSlots; ++slot, row += 2 * d) {
      write_key(pool, page, slot, row);
      if (pool.shape().has_values) write_value(pool, page, slot, row + d);
    }
  }
}
DevicePages device_copy(const PagePool& pool, const std::vector<PageId>& pages) {
  DevicePages device(pool.shape(), int(pages.size()));
  for (int i = 0; i < int(pages.size()); ++i) device.write(i, pool.keys(pages[i]));
  return device;
}
void expect_same_slots(const PagePool& pool, const std::vector<PageId>& pages,
                       const DevicePages& device) {
  for (int p = 0; p < int(pages.size()); ++p) {
    const std::vector<std::byte> page = device.read(p);
    for (int slot = 0; slot < kPageSlots; ++slot) {
      EXPECT_TRUE(slot_bytes(pool.shape(), page.data(), slot) ==
                  slot_bytes(pool.shape(), pool.keys(pages[p]), slot))
          << "page " << p << " slot " << slot << " head_dim " << pool.shape().head_dim;
    }
  }
}

class CudaSlots : public DeviceTest {};
class CudaSlotsOfFormat : public CudaSlots, public ::testing::WithParamInterface<SlotFormat> {};
INSTANTIATE_TEST_SUITE_P(All, CudaSlotsOfFormat, ::testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return name_of(info.param); });

// ---------------------------------------------------------------- copy_slots

struct CopyCase {
  int from_page, from_slot, to_page, to_slot;
};
// Within what was one page and between pages, halves of one word to halves of others.
const std::vector<CopyCase> kCopies{{0, 31, 0, 0}, {0, 30, 0, 1}, {0, 7, 1, 9},  {0, 8, 1, 8},
                                    {1, 3, 0, 12}, {1, 2, 0, 11}, {0, 31, 1, 1}, {1, 0, 0, 31}};

// Copies from pages of one layout to pages of another, all of which hold tokens before.
void expect_copied(const PageShape& from_shape, const PageShape& to_shape) {
  PagePool from(from_shape);
  PagePool to(to_shape);
  std::vector<PageId> from_pages;
  std::vector<PageId> to_pages;
  from.acquire(2, from_pages);
  to.acquire(2, to_pages);
  fill_pages(from, from_pages, 1);
  fill_pages(to, to_pages, 2);
  const DevicePages device_from = device_copy(from, from_pages);
  const DevicePages device_to = device_copy(to, to_pages);
  std::vector<SlotCopy> copies;
  for (const CopyCase& c : kCopies) {
    copies.push_back(
        {device_from.page(c.from_page), device_to.page(c.to_page), c.from_slot, c.to_slot});
    copy_slot(from, from_pages[c.from_page], c.from_slot, to, to_pages[c.to_page], c.to_slot);
  }
  const DeviceArray<SlotCopy> device(copies);
  copy_slots(device.data(), int(copies.size()), layout_of(from_shape), layout_of(to_shape),
             nullptr);
  expect_same_slots(to, to_pages, device_to);
  expect_same_slots(from, from_pages, device_from);
}

TEST_P(CudaSlotsOfFormat, CopiesBitForBitBetweenPagesStoredAlike) {
  for (const int d : {2, 8, 16, 64, 80, 128, 256, 512})
    expect_copied(page_shape(d, GetParam()), page_shape(d, GetParam()));
}

TEST_P(CudaSlotsOfFormat, CopiesWithinAPage) {
  const PageShape shape = page_shape(80, GetParam());
  PagePool pool(shape);
  const std::vector<PageId> pages{pool.acquire()};
  fill_pages(pool, pages, 3);
  const DevicePages device_pages = device_copy(pool, pages);
  std::vector<SlotCopy> copies;
  for (const auto& [from, to] : {std::pair{31, 0}, {30, 1}, {28, 29}, {7, 6}}) {
    copies.push_back({device_pages.page(0), device_pages.page(0), from, to});
    copy_slot(pool, pages[0], from, pool, pages[0], to);
  }
  const DeviceArray<SlotCopy> device(copies);
  copy_slots(device.data(), int(copies.size()), layout_of(shape), layout_of(shape), nullptr);
  expect_same_slots(pool, pages, device_pages);
}

TEST_P(CudaSlotsOfFormat, EncodesAnewBetweenOtherPages) {
  for (const SlotFormat to : kAllFormats) {
    for (const int d : {8, 80}) {
      SCOPED_TRACE(std::string("to ") + name_of(to));
      expect_copied(page_shape(d, GetParam()), page_shape(d, to));
    }
  }
}

TEST_P(CudaSlotsOfFormat, CopiesKeysAloneOfGhosts) {
  for (const SlotFormat to : {GetParam(), SlotFormat::kF32, SlotFormat::kInt8}) {
    expect_copied(page_shape(16, GetParam()), page_shape(16, to, false));
    expect_copied(page_shape(16, GetParam(), false), page_shape(16, to));
  }
}

// ---------------------------------------------------------------- turn_back_slots

TEST_P(CudaSlotsOfFormat, TurnsKeysBackAsTheCpuDoes) {
  for (const int d : {2, 8, 16, 64, 80, 128, 256, 512}) {
    const PageShape shape = page_shape(d, GetParam());
    const DeviceRope rope(d, 100);
    PagePool pool(shape);
    HeadCache head(&pool);
    for (int slot = 0; slot < kPageSlots; ++slot) head.append_slot(slot, {});
    const std::vector<PageId> pages(head.pages().begin(), head.pages().end());
    fill_pages(pool, pages, unsigned(d));
    const DevicePages device_pages = device_copy(pool, pages);
    std::vector<SlotTurn> turns;
    for (const auto& [slot, steps] : {std::pair{0, 0}, {1, 1}, {31, 99}, {30, 7}, {13, 64}}) {
      turns.push_back({device_pages.page(0), slot, steps});
      cpu::turn_back_slot(head, slot, steps, rope.host);
    }
    const DeviceArray<SlotTurn> device(turns);
    turn_back_slots(device.data(), int(turns.size()), layout_of(shape), rope.rows(), nullptr);
    expect_same_slots(pool, pages, device_pages);
  }
}

// ---------------------------------------------------------------- widen_slots

void expect_widened(const PageShape& shape, const std::vector<int>& lengths) {
  const PageShape wide = page_shape(shape.head_dim, SlotFormat::kF32, shape.has_values);
  PagePool pool(shape);
  PagePool wide_pool(wide);
  std::vector<std::vector<PageId>> pages(lengths.size());
  std::vector<DevicePages> device_pages;
  std::vector<DevicePages> out;
  std::vector<DeviceArray<std::byte*>> tables;
  std::vector<HeadSlots> heads;
  std::vector<std::byte* const*> out_tables;
  for (std::size_t h = 0; h < lengths.size(); ++h) {
    pool.acquire((lengths[h] + kPageSlots - 1) / kPageSlots, pages[h]);
    fill_pages(pool, pages[h], unsigned(h));
    device_pages.push_back(device_copy(pool, pages[h]));
    out.emplace_back(wide, int(pages[h].size()));
    tables.emplace_back(device_pages.back().addresses());
    heads.push_back({tables.back().data(), nullptr, lengths[h]});
    tables.emplace_back(out.back().addresses());
    out_tables.push_back(tables.back().data());
  }
  const DeviceArray<HeadSlots> device_heads(heads);
  const DeviceArray<std::byte* const*> device_tables(out_tables);
  widen_slots(device_heads.data(), device_tables.data(), int(lengths.size()), layout_of(shape),
              nullptr);
  for (std::size_t h = 0; h < lengths.size(); ++h) {
    const PageId expected = wide_pool.acquire();
    for (int p = 0; p < int(pages[h].size()); ++p) {
      const std::vector<std::byte> page = out[h].read(p);
      for (int slot = 0; slot < kPageSlots; ++slot) {
        copy_slot(pool, pages[h][p], slot, wide_pool, expected, slot);
        const bool is_live = p * kPageSlots + slot < lengths[h];
        EXPECT_TRUE(
            slot_bytes(wide, page.data(), slot) ==
            (is_live ? slot_bytes(wide, wide_pool.keys(expected), slot) : untouched_slot(wide)))
            << "head " << h << " page " << p << " slot " << slot;
      }
    }
  }
}

TEST_P(CudaSlotsOfFormat, WidensToWhatTheCpuReads) {
  expect_widened(page_shape(16, GetParam()), {1, 31, 32, 33, 255, 256, 257, 0});
  for (const int d : {2, 8, 64, 80, 128, 256, 512})
    expect_widened(page_shape(d, GetParam()), {33, 1});
  expect_widened(page_shape(64, GetParam(), false), {40});
}

TEST_P(CudaSlotsOfFormat, WidensMorePagesThanThereAreBlocks) {
  expect_widened(page_shape(2, GetParam()), {65 * kPageSlots + 3, 5});
}

// Codes 0 … 255 as dimensions of one key, under scale 1, and of one value under scale 3.
void expect_every_code_widened(SlotFormat format) {
  constexpr int kDim = 256;
  const PageShape shape = page_shape(kDim, format);
  const PageShape wide = page_shape(kDim, SlotFormat::kF32);
  std::vector<std::byte> page(shape.page_bytes());
  std::vector<std::uint8_t> codes(kDim);
  for (int i = 0; i < kDim; ++i) {
    codes[i] = std::uint8_t(i);
    page[shape.key_index(i, 5)] = std::byte(i);
    page[shape.key_bytes() + shape.value_index(5, i)] = std::byte(i);
  }
  shape.scales(page.data())[5] = 1.0F;
  shape.scales(page.data() + shape.key_bytes())[5] = 3.0F;
  DevicePages device_pages(shape, 1);
  device_pages.write(0, page.data());
  const DevicePages out(wide, 1);
  const DeviceArray<std::byte*> table(device_pages.addresses());
  const DeviceArray<std::byte*> out_table(out.addresses());
  const DeviceArray<HeadSlots> heads(std::vector<HeadSlots>{{table.data(), nullptr, kPageSlots}});
  const DeviceArray<std::byte* const*> out_tables(std::vector<std::byte* const*>{out_table.data()});
  widen_slots(heads.data(), out_tables.data(), 1, layout_of(shape), nullptr);
  const std::vector<std::byte> bytes = out.read(0);
  const auto* keys = reinterpret_cast<const float*>(bytes.data());
  const auto* values = reinterpret_cast<const float*>(bytes.data() + wide.key_bytes());
  std::vector<float> expected(kDim);
  const auto same = [](float a, float b) {  // a product has no particular NaN
    return std::isnan(a) ? std::isnan(b)
                         : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  dequantise(codes, 1.0F, shape.format, expected.data());
  for (int i = 0; i < kDim; ++i)
    EXPECT_TRUE(same(keys[wide.key_index(i, 5)], expected[i])) << "key code " << i;
  dequantise(codes, 3.0F, shape.format, expected.data());
  for (int i = 0; i < kDim; ++i)
    EXPECT_TRUE(same(values[wide.value_index(5, i)], expected[i])) << "value code " << i;
}
TEST_F(CudaSlots, WidenEveryCode) {
  for (const SlotFormat format : {SlotFormat::kInt8, SlotFormat::kFp8E4M3, SlotFormat::kFp8E5M2}) {
    SCOPED_TRACE(name_of(format));
    expect_every_code_widened(format);
  }
}

TEST(CudaPageLayout, IsThePageShapes) {
  const PageLayout plain = layout_of(page_shape(80, SlotFormat::kBF16));
  EXPECT_EQ(plain.head_dim, 80);
  EXPECT_EQ(plain.format, SlotFormat::kBF16);
  EXPECT_TRUE(plain.has_values);
  EXPECT_EQ(plain.value_offset, 80U * 32 * 2);
  const PageLayout codes = layout_of(page_shape(80, SlotFormat::kFp8E5M2, false));
  EXPECT_EQ(codes.format, SlotFormat::kFp8E5M2);
  EXPECT_FALSE(codes.has_values);
  EXPECT_EQ(codes.value_offset, 80U * 32 + 32 * 4);
  EXPECT_THROW(layout_of(page_shape(7, SlotFormat::kF32)), std::invalid_argument);
}

TEST_P(CudaSlotsOfFormat, NoSlotsAreAllowed) {
  const PageLayout layout = layout_of(page_shape(8, GetParam()));
  copy_slots(nullptr, 0, layout, layout, nullptr);
  turn_back_slots(nullptr, 0, layout, {}, nullptr);
  widen_slots(nullptr, nullptr, 0, layout, nullptr);
  gpu_check(cudaDeviceSynchronize(), "nothing to do");
}

}  // namespace
}  // namespace kvscope::cuda
