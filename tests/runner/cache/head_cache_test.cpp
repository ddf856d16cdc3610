#include "runner/cache/head_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvscope {
namespace {

constexpr PageShape kShape{4, DType::kF32, true};

// Slot contents that name their position, so that any wrong move shows.
void fill(HeadCache& head, int slot, float value) {
  auto* keys = reinterpret_cast<float*>(head.pool().keys(head.pages()[slot / kPageSlots]));
  auto* values = reinterpret_cast<float*>(head.pool().values(head.pages()[slot / kPageSlots]));
  for (int i = 0; i < kShape.head_dim; ++i) {
    keys[i * kPageSlots + slot % kPageSlots] = value + 0.1F * float(i);
    values[slot % kPageSlots * kShape.head_dim + i] = -value - 0.1F * float(i);
  }
}
bool holds(const HeadCache& head, int slot, float value) {
  const auto* keys =
      reinterpret_cast<const float*>(head.pool().keys(head.pages()[slot / kPageSlots]));
  const auto* values =
      reinterpret_cast<const float*>(head.pool().values(head.pages()[slot / kPageSlots]));
  for (int i = 0; i < kShape.head_dim; ++i) {
    if (keys[i * kPageSlots + slot % kPageSlots] != value + 0.1F * float(i)) return false;
    if (values[slot % kPageSlots * kShape.head_dim + i] != -value - 0.1F * float(i)) return false;
  }
  return true;
}

HeadCache filled(PagePool& pool, int n) {
  HeadCache head(&pool);
  for (int p = 0; p < n; ++p) fill(head, head.append_slot(p, {}), float(p));
  return head;
}

TEST(HeadCache, SlotsOpenedTogetherLieSideBySide) {
  PagePool pool(kShape);
  HeadCache head(&pool);
  std::vector<std::int32_t> positions;
  for (int p = 0; p < 70; ++p) positions.push_back(2 * p);
  head.append_slots(positions);
  EXPECT_EQ(head.n_slots(), 70);
  ASSERT_EQ(head.n_pages(), 3);
  EXPECT_EQ(pool.keys(head.pages()[1]) - pool.keys(head.pages()[0]),
            std::ptrdiff_t(kShape.page_bytes()));
  EXPECT_EQ(pool.keys(head.pages()[2]) - pool.keys(head.pages()[1]),
            std::ptrdiff_t(kShape.page_bytes()));
  EXPECT_EQ(head.positions()[69], 138);
  EXPECT_EQ(head.append_slot(200, {}), 70);  // goes on in the third page
  EXPECT_EQ(head.n_pages(), 3);
  head.clear();
  EXPECT_EQ(pool.held_pages(), 0);
}

TEST(HeadCache, PairsOfBf16PagesMoveWithTheirSlot) {
  constexpr PageShape kPairs{4, DType::kBF16, true};
  EXPECT_EQ(kPairs.key_index(0, 5), 10U);
  EXPECT_EQ(kPairs.key_index(3, 5), (32U + 5) * 2 + 1);
  EXPECT_EQ(kPairs.value_index(5, 1), (2U * 4 + 1) * 2 + 1);
  PagePool pool(kPairs);
  HeadCache head(&pool);
  for (int p = 0; p < 34; ++p) {
    const int slot = head.append_slot(p, {});
    const PageId page = head.pages()[slot / kPageSlots];
    for (int i = 0; i < 4; ++i) {
      reinterpret_cast<std::uint16_t*>(pool.keys(page))[kPairs.key_index(i, slot % kPageSlots)] =
          std::uint16_t(100 * p + i);
      reinterpret_cast<std::uint16_t*>(pool.values(
          page))[kPairs.value_index(slot % kPageSlots, i)] = std::uint16_t(100 * p + 50 + i);
    }
  }
  head.remove_slot(3);  // 33 moves there, from an odd slot to another
  const PageId page = head.pages()[0];
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uint16_t*>(pool.keys(page))[kPairs.key_index(i, 3)], 3300 + i);
    EXPECT_EQ(reinterpret_cast<std::uint16_t*>(pool.values(page))[kPairs.value_index(3, i)],
              3350 + i);
    EXPECT_EQ(reinterpret_cast<std::uint16_t*>(pool.values(page))[kPairs.value_index(2, i)],
              250 + i);
  }
}

TEST(HeadCache, RemovingASlotMovesTheLastTokenWithItsStateIntoIt) {
  PagePool pool(kShape);
  HeadCache head(&pool);
  for (int p = 0; p < 40; ++p) {
    const int slot =
        head.append_slot(p, {.statistic = true, .count = true, .priority = true, .rank = true});
    fill(head, slot, float(p));
    head.statistic[slot] = float(p);
    head.count[slot] = std::uint32_t(p);
    head.priority[slot] = std::uint64_t(p);
    head.rank[slot] = p;
  }
  head.remove_slot(3);
  EXPECT_EQ(head.n_slots(), 39);
  EXPECT_EQ(head.positions()[3], 39);
  EXPECT_TRUE(holds(head, 3, 39.0F));
  EXPECT_EQ(head.statistic[3], 39.0F);
  EXPECT_EQ(head.count[3], 39U);
  EXPECT_EQ(head.priority[3], 39U);
  EXPECT_EQ(head.rank[3], 39);
}

TEST(HeadCache, AReusedSlotStartsWithZeroedState) {
  PagePool pool(kShape);
  HeadCache head(&pool);
  head.append_slot(0, {.statistic = true, .count = true});
  head.statistic[0] = 5.0F;
  head.count[0] = 9;
  head.remove_slot(0);
  head.append_slot(1, {.statistic = true, .count = true});
  EXPECT_EQ(head.statistic[0], 0.0F);
  EXPECT_EQ(head.count[0], 0U);
}

TEST(HeadCache, FreedPagesReturnToThePoolAtOnce) {
  PagePool pool(kShape);
  HeadCache head = filled(pool, 2 * kPageSlots + 1);
  EXPECT_EQ(pool.held_pages(), 3);
  head.remove_slot(0);
  EXPECT_EQ(pool.held_pages(), 2);
  EXPECT_EQ(head.physical_bytes(), 2 * std::int64_t(kShape.page_bytes()));
  head.clear();
  EXPECT_EQ(pool.held_pages(), 0);
  EXPECT_EQ(pool.peak_pages(), 3);
}

TEST(HeadCache, AForkSharesPagesUntilOneSideWrites) {
  PagePool pool(kShape);
  HeadCache head = filled(pool, 40);
  HeadCache fork = head;
  EXPECT_EQ(pool.held_pages(), 2);
  fork.remove_slot(1);  // writes page 0, drops from page 1
  EXPECT_EQ(pool.held_pages(), 3);
  EXPECT_TRUE(holds(head, 1, 1.0F));
  EXPECT_TRUE(holds(fork, 1, 39.0F));
  fill(fork, fork.append_slot(77, {}), 77.0F);  // page 1 was shared: copied before it is written
  EXPECT_EQ(pool.held_pages(), 4);
  EXPECT_TRUE(holds(head, 39, 39.0F));
  EXPECT_TRUE(holds(fork, 39, 77.0F));
}

TEST(HeadCache, ARandomWalkOfForksAppendsAndRemovalsLosesNothing) {
  PagePool pool(kShape);
  std::uint64_t state = 1;
  const auto next = [&](std::uint64_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return int((state >> 33) % n);
  };
  {
    std::vector<HeadCache> caches{filled(pool, 10)};
    int position = 10;
    for (int step = 0; step < 5000; ++step) {
      HeadCache& cache = caches[std::size_t(next(caches.size()))];
      switch (next(4)) {
        case 0:
          if (caches.size() < 6) caches.push_back(HeadCache(cache));
          break;
        case 1:
          if (cache.n_slots() > 0) cache.remove_slot(next(cache.n_slots()));
          break;
        default:
          fill(cache, cache.append_slot(position, {}), float(position));
          ++position;
      }
      if (step % 97 == 0 && caches.size() > 1) caches.erase(caches.begin());
    }
    for (const HeadCache& cache : caches) {
      for (int slot = 0; slot < cache.n_slots(); ++slot)
        EXPECT_TRUE(holds(cache, slot, float(cache.positions()[slot])));
    }
  }
  EXPECT_EQ(pool.held_pages(), 0);
}

TEST(CopySlot, MovesKeysOnlyIntoAPoolWithoutValues) {
  PagePool pool(kShape);
  PagePool ghosts({4, DType::kF32, false});
  HeadCache head = filled(pool, 3);
  HeadCache ghost(&ghosts);
  ghost.append_slot(2, {});
  copy_slot(pool, head.pages()[0], 2, ghosts, ghost.pages()[0], 0);
  const auto* keys = reinterpret_cast<const float*>(ghosts.keys(ghost.pages()[0]));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(keys[i * kPageSlots], 2.0F + 0.1F * float(i));
  EXPECT_EQ(ghost.physical_bytes() * 2, std::int64_t(kShape.page_bytes()));
}

}  // namespace
}  // namespace kvscope
