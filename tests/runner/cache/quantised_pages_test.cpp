// int8 and fp8 pages: what slots read back as, how they move, what they take.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runner/backend/cpu/slots.h"
#include "runner/cache/ghost_cache.h"
#include "runner/cache/kv_codec.h"
#include "runner/engine/rope_table.h"

namespace kvscope {
namespace {

constexpr int kHeadDim = 20;

class QuantisedPages : public ::testing::TestWithParam<KvFormat> {
 protected:
  PagePool pool_{{kHeadDim, DType::kF32, true, GetParam()}};
  std::mt19937 engine_{21};

  std::vector<float> random_row() {
    std::normal_distribution<float> normal(0.0F, 3.0F);
    std::vector<float> row(kHeadDim);
    for (float& x : row) x = normal(engine_);
    return row;
  }
  std::vector<float> read_back(const std::vector<float>& x) const {
    std::vector<std::uint8_t> codes(x.size());
    std::vector<float> back(x.size());
    const float scale = quantise_token(x, GetParam(), codes.data());
    dequantise(codes, scale, GetParam(), back.data());
    return back;
  }
  static std::vector<float> key(const HeadCache& head, int slot) {
    std::vector<float> x(kHeadDim);
    head.read_key(slot, x.data());
    return x;
  }
  static std::vector<float> value(const HeadCache& head, int slot) {
    std::vector<float> x(kHeadDim);
    head.read_value(slot, x.data());
    return x;
  }
  // Rows by position; the head holds them as written by the engine, without rotation.
  std::vector<std::vector<float>> keys_, values_;
  void append(HeadCache& head) {
    const int slot = head.append_slot(int(keys_.size()), {});
    keys_.push_back(random_row());
    values_.push_back(random_row());
    cpu::write_slot(head, slot, keys_.back().data(), values_.back().data(), RopeTable{},
                    std::nullopt);
  }
  void expect_holds(const HeadCache& head, int slot) {
    const auto position = std::size_t(head.positions()[slot]);
    EXPECT_EQ(key(head, slot), read_back(keys_[position]));
    EXPECT_EQ(value(head, slot), read_back(values_[position]));
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, QuantisedPages,
                         ::testing::Values(KvFormat::kInt8, KvFormat::kFp8E4M3, KvFormat::kFp8E5M2),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(QuantisedPages, APageIsOneByteAnElementAndTwoScalesASlot) {
  const PageShape& shape = pool_.shape();
  EXPECT_EQ(shape.page_bytes(), 2U * 32 * (kHeadDim + 4));
  EXPECT_EQ(shape.token_bytes(), 2U * (kHeadDim + 4));
  EXPECT_EQ((PageShape{kHeadDim, DType::kBF16, false, GetParam()}.page_bytes()),
            32U * (kHeadDim + 4));
  HeadCache head(&pool_);
  for (int n = 0; n < 70; ++n) append(head);
  EXPECT_EQ(pool_.held_pages(), 3);
  EXPECT_EQ(head.physical_bytes(), 3 * 2 * 32 * (kHeadDim + 4));
  EXPECT_EQ(head.logical_bytes(), 70 * 2 * (kHeadDim + 4));
  EXPECT_EQ(head.metadata_bytes(), 70 * 4 + 3 * 4);
}

TEST_P(QuantisedPages, SlotsReadBackAsTheCodecSays) {
  HeadCache head(&pool_);
  for (int n = 0; n < 40; ++n) append(head);
  for (int slot = 0; slot < 40; ++slot) expect_holds(head, slot);
}

TEST_P(QuantisedPages, RemovedSlotsMoveCodesAndScalesAndForksKeepTheirs) {
  {
    HeadCache head(&pool_);
    for (int n = 0; n < 70; ++n) append(head);
    HeadCache fork = head;
    EXPECT_EQ(pool_.held_pages(), 3);
    for (const int slot : {0, 33, 5, 66, 31}) head.remove_slot(slot);
    append(head);
    append(fork);
    EXPECT_EQ(head.n_slots(), 66);
    for (int slot = 0; slot < head.n_slots(); ++slot) expect_holds(head, slot);
    for (int slot = 0; slot < fork.n_slots(); ++slot) expect_holds(fork, slot);
    while (head.n_slots() > 0) head.remove_slot(0);
    for (int slot = 0; slot < fork.n_slots(); ++slot) expect_holds(fork, slot);
  }
  EXPECT_EQ(pool_.held_pages(), 0);
}

TEST_P(QuantisedPages, GhostsHoldWhatWasCached) {
  HeadCache head(&pool_);
  for (int n = 0; n < 5; ++n) append(head);
  PagePool plain({kHeadDim, DType::kF32, false});
  PagePool codes({kHeadDim, DType::kF32, false, GetParam()});
  for (PagePool* pool : {&plain, &codes}) {
    GhostCache ghosts(pool);
    ghosts.remember(head, 3);
    EXPECT_EQ(key(ghosts.own(), 0), key(head, 3));
    EXPECT_EQ(ghosts.positions()[0], 3);
  }
}

TEST_P(QuantisedPages, ATurnedKeyIsQuantisedAgain) {
  const RopeTable rope = make_rope_table(kHeadDim, 10000.0, 64);
  HeadCache head(&pool_);
  const std::vector<float> row = random_row();
  cpu::write_slot(head, head.append_slot(9, {}), row.data(), row.data(), rope, 9);
  std::vector<float> at_9(kHeadDim);
  cpu::rotate_row(rope, row.data(), 9, 1.0F, at_9.data());
  EXPECT_EQ(key(head, 0), read_back(at_9));
  HeadCache fork = head;
  cpu::turn_back_slot(head, 0, 4, rope);
  EXPECT_EQ(key(fork, 0), read_back(at_9));
  EXPECT_EQ(value(head, 0), read_back(row));
  std::vector<float> at_5(kHeadDim);
  cpu::rotate_row(rope, row.data(), 5, 1.0F, at_5.data());
  float norm = 0.0F;
  for (const float x : row) norm = std::max(norm, std::abs(x));
  // Twice quantised: for an element at most two half steps of 2^-7 (int8), 2^-4, 2^-3 of the
  // largest, which a turn mixes into a pair (· √2).
  const float step = GetParam() == KvFormat::kInt8      ? 0x1p-7F
                     : GetParam() == KvFormat::kFp8E4M3 ? 0x1p-4F
                                                        : 0x1p-3F;
  for (int i = 0; i < kHeadDim; ++i) EXPECT_NEAR(key(head, 0)[i], at_5[i], 2.9F * step * norm);
}

TEST_P(QuantisedPages, BlocksShowTheKernelsWhatSlotsReadBackAs) {
  HeadCache head(&pool_);
  for (int n = 0; n < 200; ++n) append(head);
  int seen = 0;
  cpu::for_each_block(head, 173, [&](std::span<const cpu::PageView> pages, int first) {
    for (std::size_t p = 0; p < pages.size(); ++p) {
      EXPECT_EQ(pages[p].dtype, DType::kF32);
      const auto* keys = reinterpret_cast<const float*>(pages[p].keys);
      const auto* values = reinterpret_cast<const float*>(pages[p].values);
      for (int lane = 0; lane < pages[p].live; ++lane, ++seen) {
        const int slot = first + int(p) * kPageSlots + lane;
        for (int i = 0; i < kHeadDim; ++i) {
          EXPECT_EQ(keys[i * kPageSlots + lane], key(head, slot)[i]);
          EXPECT_EQ(values[lane * kHeadDim + i], value(head, slot)[i]);
        }
      }
    }
  });
  EXPECT_EQ(seen, 173);
}

TEST(PlainPages, CopiesBetweenElementTypesRoundOnce) {
  PagePool wide({4, DType::kF32, true});
  PagePool narrow({4, DType::kBF16, true});
  HeadCache from(&wide);
  HeadCache to(&narrow);
  const float row[4] = {1.00390625F, -2.0F, 3.1415927F, 0.0F};
  cpu::write_slot(from, from.append_slot(0, {}), row, row, RopeTable{}, std::nullopt);
  to.append_slot(0, {});
  copy_slot(wide, from.page_of(0), 0, narrow, to.page_of(0), 0);
  float back[4];
  to.read_key(0, back);
  EXPECT_EQ(back[0], 1.0F);  // halfway: to even
  EXPECT_EQ(back[2], 3.140625F);
  to.read_value(0, back);
  EXPECT_EQ(back[1], -2.0F);
}

}  // namespace
}  // namespace kvscope
