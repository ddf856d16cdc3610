// Who leaves and where the others go, with the state of the slots chosen: literal cases, then
// random ones with many ties against a plain run of the specification.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "runner/base/splitmix.h"
#include "tests/runner/backend/cuda/scan_fixture.h"

namespace kvscope::cuda {
namespace {

using namespace kvscope::cuda::testing;
using Statistic = ScanRule::Statistic;
using Victim = ScanRule::Victim;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr AttentionShape kShape{1, 1, 8};

struct Slot {
  std::int32_t position = 0;
  float statistic = 0.0F;
  std::uint32_t count = 0;
  std::uint64_t priority = 0;
};

class RuleStep : public DeviceTest {};

UnitKind kind_of(const ScanRule& rule, PositionMode positions, int next_position) {
  UnitKind kind;
  kind.page = page_shape(kShape.head_dim, SlotFormat::kF32);
  kind.positions = positions;
  kind.rule = rule;
  kind.first_position = next_position;
  return kind;
}

// A unit that holds `slots`; the key of each begins with its position, its value too.
HostUnit unit_of(const UnitKind& kind, const std::vector<Slot>& slots) {
  HostUnit unit(kind.page, 1);
  HeadCache& head = unit.heads[0];
  std::vector<std::int32_t> sorted;
  for (const Slot& slot : slots) sorted.push_back(slot.position);
  std::sort(sorted.begin(), sorted.end());
  for (const Slot& slot : slots) {
    const int at = head.append_slot(slot.position, {true, true, true, true});
    head.statistic[at] = slot.statistic;
    head.count[at] = slot.count;
    head.priority[at] = slot.priority;
    head.rank[at] = std::int32_t(std::lower_bound(sorted.begin(), sorted.end(), slot.position) -
                                 sorted.begin());
    std::vector<float> row(kShape.head_dim, 0.0F);
    row[0] = float(slot.position);
    write_key(*unit.pool, head.page_of(at), at % kPageSlots, row.data());
    write_value(*unit.pool, head.page_of(at), at % kPageSlots, row.data());
  }
  return unit;
}

// A row whose attention is uniform: query and key 0, so that every weight is 1 / n.
std::vector<float> uniform_row() { return std::vector<float>(kShape.row_floats(), 0.0F); }

using RunRows = void (*)(const std::vector<UnitRows>&, int, const ScanShape&);
constexpr RunRows kRuns[] = {run_scan, run_steps};

// One row more, at `next_position`.
DeviceUnit after_a_row(const ScanRule& rule, PositionMode positions, const std::vector<Slot>& slots,
                       int next_position, RunRows run) {
  const UnitKind kind = kind_of(rule, positions, next_position);
  const DeviceRope rope(kShape.head_dim, next_position + 1);
  const LayerRows rows(kShape, uniform_row());
  DeviceUnit unit(kind, unit_of(kind, slots), 0, int(slots.size()) + 1);
  run({{&unit, &rows}}, 1, scan_shape(kShape, kind.page, rope));
  return unit;
}

std::vector<std::int32_t> left_of(const ScanRule& rule, const std::vector<Slot>& slots,
                                  int next_position, RunRows run) {
  const DeviceUnit unit = after_a_row(rule, PositionMode::kAbsolute, slots, next_position, run);
  return unit.state().positions[0];
}

// ---------------------------------------------------------------- literal cases

TEST_F(RuleStep, NotANumberLeavesFirstThenTheLowestThenTheOlder) {
  ScanRule rule;
  rule.statistic = Statistic::kKeyNorm;  // known before: the row changes nothing
  rule.victim = Victim::kLowest;
  const std::vector<Slot> slots = {{10, 0.5F}, {3, -0.0F}, {7, 0.0F},   {1, kNaN},
                                   {5, -kInf}, {9, kInf},  {2, -1e-40F}};
  const std::vector<std::vector<std::int32_t>> left = {
      {10, 3, 7, 20, 5, 9, 2},  // 1, whose slot the newest takes
      {10, 3, 7, 2, 20, 9},     // 5: slot 4; then 1: slot 3 gets what is last
      {10, 3, 7, 20, 9},        // 2, …
      {10, 9, 7, 20},           // 3 before 7: −0 is 0, and the older leaves
      {10, 20, 9},
      {9, 20},
      {20}};  // the newest is protected
  for (const RunRows run : kRuns) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      rule.budget_tokens = int(left.size() - i);
      std::vector<std::int32_t> positions = left_of(rule, slots, 20, run);
      std::vector<std::int32_t> expected = left[i];
      std::sort(positions.begin(), positions.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(positions, expected) << i + 1 << " leave";
    }
  }
}

TEST_F(RuleStep, VictimsLeaveByDescendingSlotAndTheLastSlotFillsTheHole) {
  ScanRule rule;
  rule.victim = Victim::kOldest;
  // Slots 0 … 7 hold 30 31 1 33 34 2 3 37, the row's own 40 comes to slot 8.
  const std::vector<Slot> slots = {{30}, {31}, {1}, {33}, {34}, {2}, {3}, {37}};
  for (const RunRows run : kRuns) {
    rule.budget_tokens = 8;  // 1 leaves
    EXPECT_EQ(left_of(rule, slots, 40, run), (std::vector<int>{30, 31, 40, 33, 34, 2, 3, 37}));
    rule.budget_tokens = 7;  // slot 5 gets 40, slot 2 gets 37
    EXPECT_EQ(left_of(rule, slots, 40, run), (std::vector<int>{30, 31, 37, 33, 34, 40, 3}));
    rule.budget_tokens = 6;  // slot 6 gets 40, slot 5 gets 37, slot 2 gets that 40
    EXPECT_EQ(left_of(rule, slots, 40, run), (std::vector<int>{30, 31, 40, 33, 34, 37}));
    rule.budget_tokens = 5;  // and slot 0 gets 37
    EXPECT_EQ(left_of(rule, slots, 40, run), (std::vector<int>{37, 31, 40, 33, 34}));
  }
}

TEST_F(RuleStep, SinksAndRecentTokensStayAndTheNewestOfTooMany) {
  ScanRule rule;
  rule.victim = Victim::kOldest;
  rule.sinks = 2;
  rule.recent = 3;  // 18, 19 and the row's own 20
  const std::vector<Slot> slots = {{0}, {18}, {5}, {1}, {19}, {17}};
  for (const RunRows run : kRuns) {
    rule.budget_tokens = 6;
    EXPECT_EQ(left_of(rule, slots, 20, run), (std::vector<int>{0, 18, 20, 1, 19, 17}));
    rule.budget_tokens = 4;  // 5, 17 and the oldest protected leave
    EXPECT_EQ(left_of(rule, slots, 20, run), (std::vector<int>{19, 18, 20, 1}));
  }
}

TEST_F(RuleStep, UniformAttentionUpdatesEveryStatisticByItsShare) {
  const std::vector<Slot> slots = {{4, 0.5F, 7}, {2, 1.0F, 1}, {9, 0.25F, 3}};
  const auto state_after = [&](Statistic statistic, float decay, RunRows run) {
    ScanRule rule;
    rule.statistic = statistic;
    rule.victim = Victim::kLowest;
    rule.decay = decay;
    rule.budget_tokens = 10;
    return after_a_row(rule, PositionMode::kAbsolute, slots, 20, run).state();
  };
  for (const RunRows run : kRuns) {
    EXPECT_EQ(state_after(Statistic::kSum, 1.0F, run).statistic,
              (std::vector<float>{0.75F, 1.25F, 0.5F, 0.25F}));
    EXPECT_EQ(state_after(Statistic::kDecay, 0.5F, run).statistic,
              (std::vector<float>{0.5F, 0.75F, 0.375F, 0.25F}));
    EXPECT_EQ(state_after(Statistic::kLast, 1.0F, run).statistic,
              (std::vector<float>{0.25F, 0.25F, 0.25F, 0.25F}));
    const UnitState mean = state_after(Statistic::kMean, 1.0F, run);
    EXPECT_EQ(mean.statistic, (std::vector<float>{0.75F, 1.25F, 0.5F, 0.25F}));
    EXPECT_EQ(mean.count, (std::vector<std::uint32_t>{8, 2, 4, 1}));
    EXPECT_EQ(state_after(Statistic::kKeyNorm, 1.0F, run).statistic,
              (std::vector<float>{0.5F, 1.0F, 0.25F, -0.0F}));
  }
}

TEST_F(RuleStep, ARowUsesTheTokensOfItsBarOrTheTopKTheNewerOfEquals) {
  const std::vector<Slot> slots = {{4, 0, 4}, {2, 0, 2}, {9, 0, 9}, {6, 0, 6}};
  const auto uses_after = [&](float threshold, int top_k, RunRows run) {
    ScanRule rule;
    rule.statistic = Statistic::kLastUse;
    rule.victim = Victim::kLowest;
    rule.threshold = threshold;
    rule.top_k = top_k;
    rule.budget_tokens = 10;
    return after_a_row(rule, PositionMode::kAbsolute, slots, 20, run).state().count;
  };
  using Counts = std::vector<std::uint32_t>;
  for (const RunRows run : kRuns) {
    EXPECT_EQ(uses_after(1.0F, 0, run), (Counts{20, 20, 20, 20, 20}));  // each has its even share
    EXPECT_EQ(uses_after(1.01F, 0, run), (Counts{4, 2, 9, 6, 20}));
    EXPECT_EQ(uses_after(0.0F, 0, run), (Counts{4, 2, 9, 6, 20}));  // 5 % are one
    EXPECT_EQ(uses_after(0.0F, 3, run), (Counts{4, 2, 20, 20, 20}));
    EXPECT_EQ(uses_after(0.0F, 4, run), (Counts{20, 2, 20, 20, 20}));
    EXPECT_EQ(uses_after(0.0F, 9, run), (Counts{20, 20, 20, 20, 20}));
  }
}

// ---------------------------------------------------------------- random ones

// True if a leaves before b (policies.md 1.4), written from the specification.
bool leaves_before(const ScanRule& rule, int newest, const Slot& a, const Slot& b) {
  const auto is_protected = [&](const Slot& slot) {
    return slot.position < rule.sinks || slot.position > newest - rule.recent ||
           (rule.protect_last && slot.position == newest);
  };
  if (is_protected(a) != is_protected(b)) return is_protected(b);
  if (!is_protected(a) && rule.victim == Victim::kPriority && a.priority != b.priority)
    return a.priority < b.priority;
  if (!is_protected(a) && rule.victim == Victim::kLowest) {
    if (rule.statistic == Statistic::kLastUse) {
      if (a.count != b.count) return a.count < b.count;
    } else {
      const bool mean = rule.statistic == Statistic::kMean;
      const float x = mean ? a.statistic / float(a.count) : a.statistic;
      const float y = mean ? b.statistic / float(b.count) : b.statistic;
      if (std::isnan(x) != std::isnan(y)) return std::isnan(x);
      if (x < y || y < x) return x < y;
    }
  }
  return a.position < b.position;
}

// The slots after one more of `newest`, of uniform attention.
std::vector<Slot> plain_step(const ScanRule& rule, std::vector<Slot> slots, int newest) {
  Slot own;
  own.position = newest;
  own.statistic = rule.statistic == Statistic::kKeyNorm ? -0.0F : 0.0F;
  own.count = rule.statistic == Statistic::kLastUse ? std::uint32_t(newest) : 0;
  own.priority = token_priority(rule.seed, DeviceUnit::kLayer, 0, newest);
  slots.push_back(own);
  if (rule.statistic == Statistic::kMean) {
    for (Slot& slot : slots) {
      slot.statistic += 1.0F / float(slots.size());
      ++slot.count;
    }
  }
  const int surplus = int(slots.size()) - rule.budget_tokens;
  std::vector<int> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return leaves_before(rule, newest, slots[a], slots[b]); });
  order.resize(std::max(surplus, 0));
  std::sort(order.rbegin(), order.rend());
  for (const int slot : order) {
    slots[slot] = slots.back();
    slots.pop_back();
  }
  return slots;
}

// Few different scores, so that most decisions are ties; distinct positions in random order.
std::vector<Slot> random_slots(int n, int newest, std::mt19937& generator) {
  const float scores[] = {kNaN, -kInf, -1.0F, -1e-40F, -0.0F, 0.0F, 1e-40F, 0.5F, 1.0F, kInf};
  std::vector<std::int32_t> positions(newest);
  std::iota(positions.begin(), positions.end(), 0);
  std::shuffle(positions.begin(), positions.end(), generator);
  std::vector<Slot> slots(n);
  for (int i = 0; i < n; ++i) {
    slots[i].position = positions[i];
    slots[i].statistic = scores[generator() % std::size(scores)];
    slots[i].count = generator() % 4 == 0 ? 0xFFFFFFFEU : generator() % 3 + 1;
    const std::uint64_t priorities[] = {0, 1, 0xFFFFFFFFULL, 1ULL << 40, ~std::uint64_t(0)};
    slots[i].priority = priorities[generator() % std::size(priorities)];
  }
  return slots;
}

void expect_plain(const ScanRule& rule, PositionMode positions, const std::vector<Slot>& slots,
                  int newest, RunRows run) {
  SCOPED_TRACE(::testing::Message() << slots.size() + 1 << " slots, budget " << rule.budget_tokens
                                    << ", statistic " << int(rule.statistic) << ", victim "
                                    << int(rule.victim) << (run == run_scan ? ", scan" : ", step"));
  const std::vector<Slot> expected = plain_step(rule, slots, newest);
  const UnitState state = after_a_row(rule, positions, slots, newest, run).state();
  ASSERT_EQ(state.positions[0].size(), expected.size());
  std::set<std::int32_t> left;
  for (const Slot& slot : expected) left.insert(slot.position);
  const std::size_t slot_size = state.slots[0].size() / expected.size();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(state.positions[0][i], expected[i].position) << "slot " << i;
    if (!state.count.empty()) {
      ASSERT_EQ(state.count[i], expected[i].count);
    }
    if (!state.priority.empty()) {
      ASSERT_EQ(state.priority[i], expected[i].priority);
    }
    if (!state.statistic.empty()) {
      ASSERT_TRUE(std::memcmp(&state.statistic[i], &expected[i].statistic, sizeof(float)) == 0 ||
                  (std::isnan(state.statistic[i]) && std::isnan(expected[i].statistic)));
    }
    float value = 0.0F;  // dimension 0 of what lies in the slot
    std::memcpy(&value, state.slots[0].data() + i * slot_size + slot_size / 2, sizeof value);
    ASSERT_EQ(value, expected[i].position == newest ? 0.0F : float(expected[i].position));
    if (!state.rank[0].empty()) {
      ASSERT_EQ(state.rank[0][i], std::distance(left.begin(), left.find(expected[i].position)));
    }
  }
}

TEST_F(RuleStep, TiesAndLargeSurplusesGoAsSpecified) {
  std::mt19937 generator(7);
  const std::pair<Statistic, Victim> rules[] = {{Statistic::kKeyNorm, Victim::kLowest},
                                                {Statistic::kMean, Victim::kLowest},
                                                {Statistic::kLastUse, Victim::kLowest},
                                                {Statistic::kNone, Victim::kOldest},
                                                {Statistic::kNone, Victim::kPriority}};
  for (const int n : {1, 2, 32, 33, 256, 700}) {
    for (const auto& [statistic, victim] : rules) {
      for (const int surplus : {0, 1, 2, 9, n / 2, n - 3, n}) {
        if (surplus < 0 || surplus > n) continue;
        ScanRule rule;
        rule.statistic = statistic;
        rule.victim = victim;
        rule.threshold = 2.0F;  // no token but the newest is used
        rule.sinks = int(generator() % 8);
        rule.recent = int(generator() % 50);
        rule.protect_last = generator() % 2 == 0;
        rule.budget_tokens = std::max(1, n + 1 - surplus);
        const int newest = 3 * n / 2 + 5;
        const auto positions = PositionMode(generator() % 2);  // ranks in half the cases
        expect_plain(rule, positions, random_slots(n, newest, generator), newest,
                     kRuns[generator() % 2]);
      }
    }
  }
}

// Caches so long that a step's rule runs in larger blocks.
TEST_F(RuleStep, LongCachesGoAsSpecified) {
  std::mt19937 generator(8);
  for (const int surplus : {1, 1500}) {
    ScanRule rule;
    rule.statistic = Statistic::kKeyNorm;
    rule.victim = Victim::kLowest;
    rule.budget_tokens = 2201 - surplus;
    expect_plain(rule, PositionMode::kCacheRelative, random_slots(2200, 2500, generator), 2500,
                 run_steps);
  }
}

}  // namespace
}  // namespace kvscope::cuda
