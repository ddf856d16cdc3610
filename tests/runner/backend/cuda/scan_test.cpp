// Scans on the device against the CPU's: the same tokens stay, in the same slots, with the same
// bytes and counters; statistics and outputs within rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/runner/backend/cuda/scan_fixture.h"

namespace kvscope::cuda {
namespace {

using namespace kvscope::cuda::testing;
using Statistic = ScanRule::Statistic;
using Victim = ScanRule::Victim;
using Scope = ScanRule::Scope;

constexpr PositionMode kModes[] = {PositionMode::kAbsolute, PositionMode::kCacheRelative,
                                   PositionMode::kRerotate};

double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(std::isfinite(a[i]) && std::isfinite(b[i]));
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
  }
  return worst;
}

struct Differences {
  double out = 0.0;
  double statistic = 0.0;
  void take(const Differences& other) {
    out = std::max(out, other.out);
    statistic = std::max(statistic, other.statistic);
  }
};

// Runs both sides from empty caches on and compares what is left.
Differences compare(const UnitKind& kind, const LayerRows& rows, const DeviceRope& rope) {
  const bool layer = kind.rule.scope == Scope::kLayer;
  const int n_units = layer ? 1 : rows.shape.n_kv_heads;
  const int n_kv_heads = layer ? rows.shape.n_kv_heads : 1;
  std::vector<HostUnit> host;
  std::vector<DeviceUnit> device;
  std::vector<UnitRows> all;
  std::vector<float> out(rows.n * rows.out_stride());
  const int most =
      kind.rule.evicts() ? std::min(rows.n, kind.rule.budget_tokens + kind.chunk) : rows.n;
  for (int i = 0; i < n_units; ++i) {
    host.emplace_back(kind.page, n_kv_heads);
    device.emplace_back(kind, host.back(), i, most);
  }
  for (DeviceUnit& unit : device) all.push_back({&unit, &rows});
  run_scan(all, rows.n, scan_shape(rows.shape, kind.page, rope));
  Differences differences;
  for (int i = 0; i < n_units; ++i) {
    run_host(host[i], kind, i, rows, 0, rows.n, rope.host, out.data());
    const UnitState expected = host[i].state();
    const UnitState state = device[i].state();
    EXPECT_EQ(state.positions, expected.positions);
    EXPECT_EQ(state.rank, expected.rank);
    EXPECT_EQ(state.count, expected.count);
    EXPECT_EQ(state.priority, expected.priority);
    EXPECT_TRUE(state.slots == expected.slots) << "bytes of keys or values";
    differences.statistic =
        std::max(differences.statistic, largest_difference(state.statistic, expected.statistic));
  }
  differences.out = largest_difference(rows.out.read(), out);
  return differences;
}

struct NamedRule {
  std::string name;
  ScanRule rule;
};

std::vector<NamedRule> rules() {
  std::vector<NamedRule> all;
  const auto add = [&](std::string name, Statistic statistic, Victim victim) -> ScanRule& {
    ScanRule rule;
    rule.statistic = statistic;
    rule.victim = victim;
    rule.sinks = 2;
    rule.recent = 3;
    rule.seed = 11;
    all.push_back({std::move(name), rule});
    return all.back().rule;
  };
  add("sum", Statistic::kSum, Victim::kLowest).recent = 8;
  add("mean", Statistic::kMean, Victim::kLowest);
  add("decay", Statistic::kDecay, Victim::kLowest).decay = 0.9F;
  add("last", Statistic::kLast, Victim::kLowest).protect_last = false;
  all.back().rule.recent = 0;
  add("key_norm", Statistic::kKeyNorm, Victim::kLowest);
  add("last_use_by_weight", Statistic::kLastUse, Victim::kLowest).threshold = 1.0F;
  add("last_use_of_top_k", Statistic::kLastUse, Victim::kLowest).top_k = 7;
  add("last_use_of_a_share", Statistic::kLastUse, Victim::kLowest);
  add("oldest", Statistic::kNone, Victim::kOldest);
  add("random", Statistic::kNone, Victim::kPriority);
  add("oldest_with_a_sum", Statistic::kSum, Victim::kOldest);
  add("random_with_a_mean", Statistic::kMean, Victim::kPriority);
  return all;
}

class Scan : public DeviceTest, public ::testing::WithParamInterface<NamedRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, Scan, ::testing::ValuesIn(rules()),
                         [](const auto& param) { return param.param.name; });

TEST_P(Scan, DecidesAsTheCpuDoes) {
  const AttentionShape shape{6, 2, 16};
  const DeviceRope rope(shape.head_dim, 64);
  const LayerRows rows(shape, random_rows(shape, 50, 1.5F, 1));
  Differences worst;
  for (const Scope scope : {Scope::kHead, Scope::kLayer}) {
    for (const PositionMode positions : kModes) {
      for (const int chunk : {1, 5}) {
        for (const int budget : {12, 34}) {
          SCOPED_TRACE(::testing::Message()
                       << (scope == Scope::kLayer ? "layer" : "head") << ", positions "
                       << int(positions) << ", chunk " << chunk << ", budget " << budget);
          UnitKind kind;
          kind.page = page_shape(shape.head_dim, SlotFormat::kF32);
          kind.positions = positions;
          kind.rule = GetParam().rule;
          kind.rule.scope = scope;
          kind.rule.budget_tokens = budget;
          kind.chunk = chunk;
          kind.rows_before = 2;  // chunks count over the stretch
          worst.take(compare(kind, rows, rope));
        }
      }
    }
  }
  // Sums in another order, another exp. Largest seen: outputs 1.2e-6, sums 9.5e-7.
  EXPECT_LT(worst.out, 5e-6);
  EXPECT_LT(worst.statistic, 5e-6);
}

class ScanOf : public DeviceTest {};

ScanRule heaviest(int budget) {
  ScanRule rule;
  rule.statistic = Statistic::kSum;
  rule.victim = Victim::kLowest;
  rule.budget_tokens = budget;
  rule.sinks = 1;
  return rule;
}

TEST_F(ScanOf, EveryFormat) {
  const AttentionShape shape{3, 1, 16};
  const DeviceRope rope(shape.head_dim, 64);
  const LayerRows rows(shape, random_rows(shape, 60, 2.5F, 2));
  Differences worst;
  Differences worst_bf16;
  for (const SlotFormat format : kAllFormats) {
    for (const PositionMode positions : kModes) {
      for (const Scope scope : {Scope::kHead, Scope::kLayer}) {
        SCOPED_TRACE(::testing::Message() << name_of(format) << ", positions " << int(positions)
                                          << ", scope " << int(scope));
        UnitKind kind;
        kind.page = page_shape(shape.head_dim, format);
        kind.positions = positions;
        kind.rule = heaviest(35);
        kind.rule.scope = scope;
        kind.chunk = scope == Scope::kLayer ? 4 : 1;
        (format == SlotFormat::kBF16 ? worst_bf16 : worst).take(compare(kind, rows, rope));
      }
    }
  }
  // Largest seen: outputs 2.4e-6, with bf16 weights 5.3e-6; sums 9.6e-7. A weight that another exp
  // rounds to the other of two bf16 values moves an output by 2^-8 of itself times a value near 5.
  EXPECT_LT(worst.out, 1e-5);
  EXPECT_LT(worst_bf16.out, 2e-2);
  EXPECT_LT(std::max(worst.statistic, worst_bf16.statistic), 5e-6);
}

TEST_F(ScanOf, EveryShape) {
  Differences worst;
  for (const AttentionShape shape :
       {AttentionShape{1, 1, 8}, AttentionShape{8, 1, 20}, AttentionShape{14, 2, 64},
        AttentionShape{16, 1, 80}, AttentionShape{3, 3, 128}, AttentionShape{5, 1, 256},
        AttentionShape{2, 1, 512}}) {
    SCOPED_TRACE(::testing::Message() << shape.n_heads << " heads of " << shape.head_dim);
    const DeviceRope rope(shape.head_dim, 64);
    const LayerRows rows(shape, random_rows(shape, 36, 1.0F, 3));
    UnitKind kind;
    kind.page = page_shape(shape.head_dim, SlotFormat::kF32);
    kind.positions = PositionMode::kCacheRelative;
    kind.rule = heaviest(33);
    worst.take(compare(kind, rows, rope));
    kind.positions = PositionMode::kRerotate;
    kind.rule.scope = Scope::kLayer;
    kind.chunk = 2;
    worst.take(compare(kind, rows, rope));
    kind.rule = {};  // grows
    worst.take(compare(kind, rows, rope));
  }
  // Largest seen: 3.6e-7 and 4.8e-7.
  EXPECT_LT(worst.out, 2e-6);
  EXPECT_LT(worst.statistic, 2e-6);
}

TEST_F(ScanOf, SeveralChunksOfSlots) {
  const AttentionShape shape{2, 2, 8};
  const DeviceRope rope(shape.head_dim, 320);
  const LayerRows rows(shape, random_rows(shape, 310, 2.0F, 4));
  Differences worst;
  for (const int chunk : {1, 40}) {
    UnitKind kind;
    kind.page = page_shape(shape.head_dim, SlotFormat::kF32);
    kind.positions = PositionMode::kRerotate;
    kind.rule = heaviest(258);
    kind.rule.scope = Scope::kLayer;
    kind.chunk = chunk;
    worst.take(compare(kind, rows, rope));
  }
  // Largest seen: 2.6e-6 and 9.6e-7.
  EXPECT_LT(worst.out, 1e-5);
  EXPECT_LT(worst.statistic, 5e-6);
}

// What one call does not finish, the next continues, with the same bits.
TEST_F(ScanOf, AStretchInParts) {
  const AttentionShape shape{4, 2, 16};
  const DeviceRope rope(shape.head_dim, 64);
  const std::vector<float> qkv = random_rows(shape, 40, 1.5F, 5);
  UnitKind kind;
  kind.page = page_shape(shape.head_dim, SlotFormat::kF32);
  kind.rule = heaviest(20);
  kind.chunk = 7;
  const HostUnit empty(kind.page, 1);
  const ScanShape scanned = scan_shape(shape, kind.page, rope);
  const LayerRows rows(shape, qkv);
  DeviceUnit whole(kind, empty, 1, 27);
  run_scan({{&whole, &rows}}, 40, scanned);
  const LayerRows rows_in_parts(shape, qkv);
  DeviceUnit parts(kind, empty, 1, 27);
  for (const int n : {5, 1, 22, 12}) run_scan({{&parts, &rows_in_parts}}, n, scanned);
  EXPECT_EQ(parts.state().positions, whole.state().positions);
  EXPECT_EQ(parts.state().statistic, whole.state().statistic);
  EXPECT_TRUE(parts.state().slots == whole.state().slots);
  const std::vector<float> a = rows.out.read();
  const std::vector<float> b = rows_in_parts.out.read();
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

// A key that is not a number spoils every row that sees it; what such rows leave of the statistic
// is no number either, and of those the oldest leaves first.
TEST_F(ScanOf, AKeyThatIsNotANumberIsSeenAndLeavesByItsAge) {
  const AttentionShape shape{2, 1, 8};
  const DeviceRope rope(shape.head_dim, 64);
  std::vector<float> qkv = random_rows(shape, 13, 1.5F, 6);
  qkv[4 * shape.row_floats() + 2 * shape.head_dim + 3] = std::nanf("");
  const LayerRows rows(shape, qkv);
  UnitKind kind;
  kind.page = page_shape(shape.head_dim, SlotFormat::kF32);
  kind.rule = heaviest(8);  // the first token is protected
  DeviceUnit unit(kind, HostUnit(kind.page, 1), 0, 9);
  run_scan({{&unit, &rows}}, 12, scan_shape(shape, kind.page, rope));
  std::vector<std::int32_t> positions = unit.state().positions[0];
  std::sort(positions.begin(), positions.end());
  EXPECT_EQ(positions, (std::vector<std::int32_t>{0, 5, 6, 7, 8, 9, 10, 11}));
  run_scan({{&unit, &rows}}, 1, scan_shape(shape, kind.page, rope));
  const std::vector<float> out = rows.out.read();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t row = i / rows.out_stride();
    EXPECT_EQ(std::isnan(out[i]), row >= 4 && row < 12) << "row " << row;
  }
}

}  // namespace
}  // namespace kvscope::cuda
