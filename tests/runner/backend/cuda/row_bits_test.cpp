// The promise that a row's bits do not depend on the kernel that computes it: dense rows in tiles
// against rows attended one by one, where tensor cores compute both. (decode_test.cpp has attended
// rows against scans, attend_selected_test.cpp chosen slots against dense rows.)
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runner/backend/cuda/prompt_attention.h"
#include "runner/backend/cuda/scan.h"
#include "tests/runner/backend/cuda/attention_fixture.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

struct RowShape {
  int group;
  int head_dim;
};

class CudaRowBits : public DeviceTest {
 protected:
  // [n_rows][group · head_dim] and, of each query, max + log(sum).
  struct Rows {
    std::vector<float> out;
    std::vector<float> lse;
  };

  // Of one KV head; q: [n_rows][group][head_dim].
  static Rows dense(const DeviceHeads& heads, const PageShape& shape, int group,
                    const std::vector<float>& q, int slots_before) {
    const int n_rows = int(q.size()) / (group * shape.head_dim);
    const DeviceArray<float> q_device(q);
    const DeviceArray<float> out(q.size());
    const DeviceArray<float> lse(std::size_t(group) * n_rows);
    attend_dense({heads.data(),
                  q_device.data(),
                  out.data(),
                  lse.data(),
                  std::size_t(n_rows),
                  {group, 1},
                  n_rows,
                  slots_before},
                 layout_of(shape), nullptr);
    return {out.read(), lse.read()};
  }

  static std::vector<float> one_by_one(const DeviceHeads& heads, const PageShape& shape, int group,
                                       const std::vector<float>& q, int slots_before) {
    const std::size_t row_floats = std::size_t(group) * shape.head_dim;
    const int n_rows = int(q.size() / row_floats);
    const int most = slots_before + n_rows;
    const DeviceArray<float> q_device(q);
    const DeviceArray<float> out(q.size());
    const DeviceArray<float> partials(decode_partial_floats(n_rows, group, shape.head_dim, most));
    std::vector<AttendRow> rows(n_rows);
    for (int r = 0; r < n_rows; ++r) {
      rows[r].slots = heads.slots(0);
      rows[r].slots.n_slots = slots_before + r + 1;
      rows[r].q = q_device.data() + r * row_floats;
      rows[r].out = out.data() + r * row_floats;
    }
    const DeviceArray<AttendRow> rows_device(rows);
    attend_rows(rows_device.data(), n_rows, group, most, layout_of(shape), {}, partials.data(),
                nullptr);
    return out.read();
  }
};

// The bits of NaNs are nobody's promise.
void expect_same(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_TRUE(same_bits({&a[i], 1}, {&b[i], 1})) << i << ": " << a[i] << " " << b[i];
  }
}

TEST_F(CudaRowBits, DenseRowsAreRowsOneByOne) {
  std::vector<RowShape> shapes;
  for (const int head_dim : {8, 64, 80, 128, 256}) {
    for (const int group : {1, 3, 8}) shapes.push_back({group, head_dim});
  }
  shapes.push_back({2, 20});
  shapes.push_back({1, 512});
  for (const auto [group, head_dim] : shapes) {
    const PageShape shape = page_shape(head_dim, SlotFormat::kBF16);
    for (const auto [slots_before, n_rows] :
         {std::pair{0, 1}, {30, 3}, {0, 35}, {254, 3}, {250, 20}, {511, 2}}) {
      SCOPED_TRACE(::testing::Message() << group << " heads of " << head_dim << ", " << n_rows
                                        << " rows after " << slots_before);
      const HostHeads host(shape, 1, slots_before + n_rows, 1);
      const DeviceHeads heads(host.heads);
      const auto q = random_queries(std::size_t(n_rows) * group, shape, 2);
      expect_same(dense(heads, shape, group, q, slots_before).out,
                  one_by_one(heads, shape, group, q, slots_before));
    }
  }
}

// Logits far apart and large: chunks whose weight vanishes beside others'.
TEST_F(CudaRowBits, AlsoWhereWeightsVanish) {
  const PageShape shape = page_shape(64, SlotFormat::kBF16);
  constexpr int kBefore = 700;
  constexpr int kRows = 40;
  const HostHeads host(shape, 1, kBefore + kRows, 3);
  const DeviceHeads heads(host.heads);
  auto q = random_queries(std::size_t(kRows) * 2, shape, 4);
  for (float& x : q) x *= 32.0F;  // exact in bf16
  expect_same(dense(heads, shape, 2, q, kBefore).out, one_by_one(heads, shape, 2, q, kBefore));
}

// Values that some rows of a tile see and others do not: only what they touch changes.
TEST_F(CudaRowBits, InfiniteValuesStayInTheirDimensionAndBelow) {
  constexpr int kRows = 40;
  constexpr int kGroup = 3;
  const float infinity = std::numeric_limits<float>::infinity();
  struct Bad {
    int slot;
    int dim;
    float value;
  };
  for (const int head_dim : {8, 64, 80, 256}) {
    const PageShape shape = page_shape(head_dim, SlotFormat::kBF16);
    const std::vector<Bad> all_bad = {{9, 5, infinity},
                                      {20, 5, -infinity},
                                      {33, head_dim - 1, -infinity},
                                      {24, 2, std::nanf("")}};
    HostHeads host(shape, 1, kRows, 5);
    const auto q = random_queries(std::size_t(kRows) * kGroup, shape, 6);
    const Rows clean = dense(DeviceHeads(host.heads), shape, kGroup, q, 0);
    for (const auto [slot, dim, value] : all_bad) {
      const PageId page = host.heads[0].page_of(slot);
      auto* values = reinterpret_cast<std::uint16_t*>(host.pool.values(page));
      values[shape.value_index(slot % kPageSlots, dim)] = std::uint16_t(bf16_bits(value));
    }
    const DeviceHeads heads(host.heads);
    const Rows rows = dense(heads, shape, kGroup, q, 0);
    EXPECT_TRUE(same_bits(rows.lse, clean.lse));
    expect_same(rows.out, one_by_one(heads, shape, kGroup, q, 0));
    std::vector<float> expected = clean.out;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const int row = int(i) / (kGroup * head_dim);
      for (const auto [slot, dim, value] : all_bad) {
        if (row >= slot && int(i) % head_dim == dim) expected[i] += value;
      }
    }
    expect_same(rows.out, expected);
  }
}

// Weight 0 by underflow is not the same as not to see.
TEST_F(CudaRowBits, AnInfiniteValueOfNoWeightIsNotANumber) {
  const PageShape shape = page_shape(8, SlotFormat::kBF16);
  HostHeads host(shape, 1, 0, 0);
  const std::vector<float> ones(8, 1.0F);
  std::vector<float> bad = ones;
  bad[3] = std::numeric_limits<float>::infinity();
  host.append(0, std::vector<float>(8, -100.0F), bad);
  host.append(0, ones, ones);
  const std::vector<float> q(2 * 8, 1.0F);
  const DeviceHeads heads(host.heads);
  const Rows rows = dense(heads, shape, 1, q, 0);
  EXPECT_EQ(rows.out[2], 1.0F);
  EXPECT_EQ(rows.out[3], bad[3]);
  EXPECT_EQ(rows.out[8 + 2], 1.0F);
  EXPECT_TRUE(std::isnan(rows.out[8 + 3]));
  expect_same(rows.out, one_by_one(heads, shape, 1, q, 0));
}

}  // namespace
}  // namespace kvscope::cuda
