// Tokens of a prompt into slots: the bytes that the CPU writes, wherever they go.
#include "runner/backend/cuda/gather.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "runner/backend/cpu/slots.h"
#include "runner/cache/head_cache.h"
#include "tests/runner/backend/cuda/device_array.h"
#include "tests/runner/backend/cuda/device_pages.h"
#include "tests/runner/backend/cuda/floats.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class CudaGather : public DeviceTest {};

// The bytes that the CPU writes for one token.
std::vector<std::byte> cpu_slot(const PageShape& shape, const float* key, const float* value,
                                const RopeTable& rope, int angle) {
  PagePool pool(shape);
  HeadCache head(&pool);
  head.append_slot(0, {});
  cpu::write_slot(head, 0, key, value, rope, angle < 0 ? std::nullopt : std::optional<int>(angle));
  return slot_bytes(shape, pool.keys(head.page_of(0)), 0);
}

// Prompt rows for one KV head of several.
struct Kept {
  std::vector<std::int32_t> positions;
  int first_slot = 0;
  int kv_head = 0;
  GatherAngle angle = GatherAngle::kPosition;
};
int angle_of(const Kept& kept, int i) {
  if (kept.angle == GatherAngle::kNone) return -1;
  return kept.angle == GatherAngle::kOrder ? i : kept.positions[i];
}

// Each of `all` into pages of its own; compares every slot of them, written or not. qkv: [rows]
// [n_heads + 2 · n_kv_heads][head_dim].
void expect_cpu_bytes(const PageShape& shape, const std::vector<Kept>& all,
                      const std::vector<float>& qkv, int n_heads, int n_kv_heads,
                      const DeviceRope& rope) {
  const std::size_t d = shape.head_dim;
  const std::size_t row_floats = (n_heads + 2 * std::size_t(n_kv_heads)) * d;
  const DeviceArray<float> device_qkv(qkv);
  std::vector<DevicePages> pages;
  std::vector<DeviceArray<std::byte*>> tables;
  std::vector<DeviceArray<std::int32_t>> positions;
  std::vector<GatherHead> heads;
  GatherRows job;
  for (const Kept& kept : all) {
    const int n = int(kept.positions.size());
    pages.emplace_back(shape, (kept.first_slot + n + kPageSlots - 1) / kPageSlots);
    tables.emplace_back(pages.back().addresses());
    positions.emplace_back(kept.positions);
    heads.push_back({tables.back().data(), positions.back().data(), n, kept.first_slot,
                     kept.kv_head, kept.angle});
    job.most = std::max(job.most, n);
  }
  const DeviceArray<GatherHead> device_heads(heads);
  job.heads = device_heads.data();
  job.n_jobs = int(heads.size());
  job.qkv = device_qkv.data();
  job.row_floats = row_floats;
  job.n_heads = n_heads;
  job.n_kv_heads = n_kv_heads;
  gather_rows(job, layout_of(shape), rope.rows(), nullptr);
  for (std::size_t j = 0; j < all.size(); ++j) {
    const Kept& kept = all[j];
    for (int p = 0; p < pages[j].n_pages(); ++p) {
      const std::vector<std::byte> page = pages[j].read(p);
      for (int lane = 0; lane < kPageSlots; ++lane) {
        const int i = p * kPageSlots + lane - kept.first_slot;
        std::vector<std::byte> expected = untouched_slot(shape);
        if (i >= 0 && i < int(kept.positions.size())) {
          const float* key =
              qkv.data() + kept.positions[i] * row_floats + std::size_t(n_heads + kept.kv_head) * d;
          expected = cpu_slot(shape, key, key + n_kv_heads * d, rope.host, angle_of(kept, i));
        }
        EXPECT_TRUE(slot_bytes(shape, page.data(), lane) == expected)
            << "job " << j << " token " << i << " head_dim " << d;
      }
    }
  }
}

// One job of all rows, each of which is a key and a value, as they are.
void expect_cpu_bytes_of_rows(const PageShape& shape, const std::vector<float>& rows) {
  Kept kept;
  for (int r = 0; r < int(rows.size()) / (2 * shape.head_dim); ++r) kept.positions.push_back(r);
  kept.first_slot = 3;
  kept.angle = GatherAngle::kNone;
  expect_cpu_bytes(shape, {kept}, rows, 0, 1, DeviceRope(shape.head_dim, 2));
}

TEST_F(CudaGather, WritesWhereThePageShapeSays) {
  const PageShape shape = page_shape(4, SlotFormat::kF32);
  const DevicePages pages(shape, 1);
  const DeviceArray<std::byte*> table(pages.addresses());
  const DeviceArray<float> qkv(
      std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, /*value*/ 5, 6, 7, 8});
  const DeviceArray<float> cos(std::vector<float>{1, 1, 0.5F, 0});  // [2 positions][2 pairs]
  const DeviceArray<float> sin(std::vector<float>{0, 0, 2, 1});
  const DeviceArray<std::int32_t> positions(std::vector<std::int32_t>{1});
  const DeviceArray<GatherHead> heads(
      std::vector<GatherHead>{{table.data(), positions.data(), 1, 3, 0, GatherAngle::kNone},
                              {table.data(), positions.data(), 1, 31, 0, GatherAngle::kPosition}});
  gather_rows({heads.data(), 2, 1, qkv.data(), 8, 0, 1}, layout_of(shape), {cos.data(), sin.data()},
              nullptr);
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

TEST_F(CudaGather, LiteralInt8Token) {
  const PageShape shape = page_shape(4, SlotFormat::kInt8);
  const DevicePages pages(shape, 1);
  const DeviceArray<std::byte*> table(pages.addresses());
  // Scale 2; 1 and 5 are ties, rounded to even.
  const DeviceArray<float> qkv(std::vector<float>{254, 1, 5, -254, /*value*/ 0, 0, 0, 0});
  const DeviceArray<std::int32_t> positions(std::vector<std::int32_t>{0});
  const DeviceArray<GatherHead> heads(
      std::vector<GatherHead>{{table.data(), positions.data(), 1, 7, 0, GatherAngle::kNone}});
  gather_rows({heads.data(), 1, 1, qkv.data(), 8, 0, 1}, layout_of(shape), {}, nullptr);
  const std::vector<std::byte> bytes = pages.read(0);
  EXPECT_EQ(std::int8_t(bytes[7]), 127);
  EXPECT_EQ(std::int8_t(bytes[32 + 7]), 0);
  EXPECT_EQ(std::int8_t(bytes[2 * 32 + 7]), 2);
  EXPECT_EQ(std::int8_t(bytes[3 * 32 + 7]), -127);
  EXPECT_EQ(shape.scales(bytes.data())[7], 2.0F);
  EXPECT_EQ(shape.scales(bytes.data() + shape.key_bytes())[7], 0.0F);
}

class CudaGatherOfFormat : public CudaGather, public ::testing::WithParamInterface<SlotFormat> {};
INSTANTIATE_TEST_SUITE_P(All, CudaGatherOfFormat, ::testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return name_of(info.param); });

// Jobs of different heads and lengths in one call; neighbours share a word in bf16 pages and are
// written by different warps and blocks.
TEST_P(CudaGatherOfFormat, WritesTheBytesOfTheCpu) {
  constexpr int kRows = 50;
  std::vector<std::int32_t> many;
  for (int i = 0; i < 41; ++i) many.push_back(i + i / 5);
  const std::vector<Kept> all{{many, 0, 1, GatherAngle::kPosition},
                              {{0, 7, 49}, 30, 0, GatherAngle::kOrder},
                              {{13}, 33, 2, GatherAngle::kNone},
                              {{}, 5, 0, GatherAngle::kPosition},
                              {{1, 2, 3, 10, 20, 30, 31, 40, 48}, 32, 2, GatherAngle::kPosition}};
  for (const int d : {2, 8, 16, 64, 80, 128, 256, 512}) {
    const DeviceRope rope(d, kRows);
    for (const bool has_values : {true, false}) {
      expect_cpu_bytes(page_shape(d, GetParam(), has_values), all,
                       random_floats(std::size_t(kRows) * 10 * d, 2.0F, unsigned(d)), 4, 3, rope);
    }
  }
}

// Rows of zeros, with subnormals, beyond what a format can hold, not finite: every key and value of
// head_dim 8, stored unrotated.
TEST_P(CudaGatherOfFormat, WritesAwkwardValuesAsTheCpuDoes) {
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
  std::vector<float> flat;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const auto& value = rows[(t + 1) % rows.size()];
    flat.insert(flat.end(), rows[t].begin(), rows[t].end());
    flat.insert(flat.end(), value.begin(), value.end());
  }
  expect_cpu_bytes_of_rows(page_shape(8, GetParam()), flat);
}

// Every code of the 8-bit formats, from the middle of its neighbours as well.
TEST_P(CudaGatherOfFormat, WritesEveryValueNearACodeAsTheCpuDoes) {
  constexpr int kDim = 256;
  std::vector<float> rows;
  const float largest[] = {1, 1, 1, 127, 448, 57344};
  for (int t = 0; t < 8; ++t) {
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
  expect_cpu_bytes_of_rows(page_shape(kDim, GetParam()), rows);
}

TEST_F(CudaGather, NothingIsAllowed) {
  gather_rows({}, layout_of(page_shape(8, SlotFormat::kInt8)), {}, nullptr);
  gpu_check(cudaDeviceSynchronize(), "nothing to do");
}

}  // namespace
}  // namespace kvscope::cuda
