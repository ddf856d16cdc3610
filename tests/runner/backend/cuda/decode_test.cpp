// Rows spread over blocks: the bits of a scan by one block, and attention against plain loops in
// double over what the pages hold.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "runner/backend/cuda/prompt_attention.h"
#include "runner/backend/cuda/rows.h"
#include "runner/base/half.h"
#include "tests/runner/backend/cuda/scan_fixture.h"

namespace kvscope::cuda {
namespace {

using namespace kvscope::cuda::testing;
using Statistic = ScanRule::Statistic;
using Victim = ScanRule::Victim;
using Scope = ScanRule::Scope;

constexpr PositionMode kModes[] = {PositionMode::kAbsolute, PositionMode::kCacheRelative,
                                   PositionMode::kRerotate};
constexpr int kNever = 100000;  // a budget that keeps state and never evicts
constexpr int kBefore = 300;    // most slots at the start of a test

class Decode : public DeviceTest {};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}
void expect_same_bits(const UnitState& a, const UnitState& b) {
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_TRUE(a.slots == b.slots) << "bytes of keys or values";
  EXPECT_TRUE(same_bits(a.statistic, b.statistic));
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.priority, b.priority);
}

ScanRule rule_of(Statistic statistic, Victim victim, Scope scope, int budget) {
  ScanRule rule;
  rule.statistic = statistic;
  rule.victim = victim;
  rule.scope = scope;
  rule.decay = 0.9F;
  rule.sinks = 1;
  rule.recent = 2;
  rule.seed = 5;
  rule.budget_tokens = budget;
  return rule;
}

// A unit that n_slots rows have filled, positions 0 …
HostUnit filled_unit(UnitKind kind, const LayerRows& before, int first_kv_head, int n_kv_heads,
                     int n_slots, const DeviceRope& rope) {
  HostUnit unit(kind.page, n_kv_heads);
  std::vector<float> out(before.n * before.out_stride());
  kind.first_position = 0;
  if (kind.rule.evicts()) kind.rule.budget_tokens = kNever;
  run_host(unit, kind, first_kv_head, before, 0, n_slots, rope.host, out.data());
  return unit;
}

struct StepCase {
  AttentionShape shape;
  SlotFormat format;
  PositionMode positions;
  ScanRule rule;  // evicts() false: grow
  int chunk = 1;
};

// Units of different lengths, whose rule (if any) keeps what they start with.
struct Units {
  std::vector<UnitKind> kinds;
  std::vector<HostUnit> starts;
  std::vector<int> first_kv_heads;
  static constexpr int kRoom = 8;  // rows that a test may add

  Units(const StepCase& c, const LayerRows& before, const DeviceRope& rope,
        std::initializer_list<int> lengths) {
    const bool layer = c.rule.scope == Scope::kLayer;
    int head = 0;
    for (const int n : lengths) {
      UnitKind kind;
      kind.page = page_shape(c.shape.head_dim, c.format);
      kind.positions = c.positions;
      kind.rule = c.rule;
      if (kind.rule.evicts()) kind.rule.budget_tokens = std::max(n, 1);
      kind.chunk = c.chunk;
      kind.first_position = kBefore;
      kinds.push_back(kind);
      first_kv_heads.push_back(layer ? 0 : head);
      starts.push_back(filled_unit(kind, before, first_kv_heads.back(),
                                   layer ? c.shape.n_kv_heads : 1, n, rope));
      head = (head + 1) % c.shape.n_kv_heads;
    }
  }
  DeviceUnit on_device(std::size_t i) const {
    return {kinds[i], starts[i], first_kv_heads[i], starts[i].heads[0].n_slots() + kRoom};
  }
};

struct Result {
  UnitState state;
  std::vector<float> out;  // [rows][group · head_dim] of the unit's query heads
};
Result result_of(const DeviceUnit& unit, int first_kv_head, const LayerRows& rows) {
  Result result{unit.state(), {}};
  const std::vector<float> out = rows.out.read();
  const std::size_t head_floats = std::size_t(rows.shape.group()) * rows.shape.head_dim;
  for (int r = 0; r < rows.n; ++r) {
    const auto first = out.begin() + r * rows.out_stride() + first_kv_head * head_floats;
    result.out.insert(result.out.end(), first, first + unit.n_kv_heads() * head_floats);
  }
  return result;
}

// Each unit has outputs of its own: several may want the same heads.
using Run = void (*)(const std::vector<UnitRows>&, int, const ScanShape&);
std::vector<Result> run_units(const Units& units, const std::vector<std::size_t>& chosen,
                              const StepCase& c, const DeviceRope& rope,
                              const std::vector<float>& qkv, Run run) {
  std::vector<DeviceUnit> device;
  std::vector<LayerRows> rows;
  for (const std::size_t i : chosen) {
    device.push_back(units.on_device(i));
    rows.emplace_back(c.shape, qkv);
  }
  std::vector<UnitRows> all;
  for (std::size_t k = 0; k < chosen.size(); ++k) all.push_back({&device[k], &rows[k]});
  run(all, rows[0].n, scan_shape(c.shape, units.kinds[0].page, rope));
  std::vector<Result> results;
  for (std::size_t k = 0; k < chosen.size(); ++k)
    results.push_back(result_of(device[k], units.first_kv_heads[chosen[k]], rows[k]));
  return results;
}

void expect_steps_like_scans(const StepCase& c, std::initializer_list<int> lengths) {
  const DeviceRope rope(c.shape.head_dim, kBefore + 16);
  const LayerRows before(c.shape, random_rows(c.shape, kBefore, 1.5F, 2));
  const std::vector<float> qkv = random_rows(c.shape, 3, 1.5F, 3);
  const Units units(c, before, rope, lengths);
  std::vector<std::size_t> all(units.kinds.size());
  std::iota(all.begin(), all.end(), std::size_t(0));
  const std::vector<Result> expected = run_units(units, all, c, rope, qkv, run_steps);
  const auto expect_same = [&](const Result& result, std::size_t i, const char* what) {
    SCOPED_TRACE(::testing::Message() << what << ", unit " << i);
    expect_same_bits(result.state, expected[i].state);
    EXPECT_TRUE(same_bits(result.out, expected[i].out));
  };
  const std::vector<Result> scanned = run_units(units, all, c, rope, qkv, run_scan);
  for (const std::size_t i : all) {
    expect_same(scanned[i], i, "scan");
    expect_same(run_units(units, {i}, c, rope, qkv, run_scan)[0], i, "scan alone");
    expect_same(run_units(units, {i}, c, rope, qkv, run_steps)[0], i, "steps alone");
  }
}

TEST_F(Decode, StepsHaveTheBitsOfAScanInEveryFormat) {
  for (const SlotFormat format : kAllFormats) {
    for (const PositionMode positions : kModes) {
      SCOPED_TRACE(::testing::Message() << name_of(format) << ", positions " << int(positions));
      expect_steps_like_scans({{6, 2, 16},
                               format,
                               positions,
                               rule_of(Statistic::kSum, Victim::kLowest, Scope::kHead, 1)},
                              {32, 257});
    }
  }
}

TEST_F(Decode, StepsHaveTheBitsOfAScanUnderEveryRule) {
  const std::pair<Statistic, Victim> rules[] = {
      {Statistic::kMean, Victim::kLowest},    {Statistic::kDecay, Victim::kLowest},
      {Statistic::kLast, Victim::kLowest},    {Statistic::kLastUse, Victim::kLowest},
      {Statistic::kKeyNorm, Victim::kLowest}, {Statistic::kNone, Victim::kOldest},
      {Statistic::kNone, Victim::kPriority}};
  for (const auto& [statistic, victim] : rules) {
    for (const Scope scope : {Scope::kHead, Scope::kLayer}) {
      SCOPED_TRACE(::testing::Message() << int(statistic) << ", scope " << int(scope));
      expect_steps_like_scans({{4, 2, 8},
                               SlotFormat::kF32,
                               PositionMode::kRerotate,
                               rule_of(statistic, victim, scope, 1),
                               statistic == Statistic::kLast ? 2 : 1},
                              {scope == Scope::kHead ? 33 : 70, 256});
    }
  }
}

TEST_F(Decode, StepsHaveTheBitsOfAScanInEveryShape) {
  for (const AttentionShape shape :
       {AttentionShape{1, 1, 8}, AttentionShape{8, 1, 64}, AttentionShape{3, 1, 80},
        AttentionShape{5, 1, 128}, AttentionShape{2, 1, 256}, AttentionShape{16, 1, 512}}) {
    SCOPED_TRACE(::testing::Message() << shape.n_heads << " heads of " << shape.head_dim);
    ScanRule grows;
    expect_steps_like_scans({shape, SlotFormat::kF32, PositionMode::kAbsolute, grows}, {0, 31});
    expect_steps_like_scans({shape, SlotFormat::kBF16, PositionMode::kCacheRelative,
                             rule_of(Statistic::kSum, Victim::kLowest, Scope::kHead, 1)},
                            {1, 255});
  }
}

// ---------------------------------------------------------------- attention alone

struct Attended {
  std::vector<float> q;        // [group][head_dim]
  std::vector<float> out;      // [group][head_dim]
  std::vector<float> logits;   // [group][n_slots]
  std::vector<float> weights;  // [group][n_slots]
};

// The same row as a dense one, of keys that lie rotated.
std::vector<float> attend_as_dense(const AttendRow& row, const LayerRows& rows,
                                   const PageLayout& layout) {
  const int group = rows.shape.group();
  const DeviceArray<HeadSlots> heads(std::vector<HeadSlots>{row.slots});
  const DeviceArray<float> out(std::size_t(group) * rows.shape.head_dim);
  DenseRows dense;
  dense.heads = heads.data();
  dense.q = row.q;
  dense.out = out.data();
  dense.counts = {group, 1};
  dense.n_rows = 1;
  dense.slots_before = row.slots.n_slots - 1;
  attend_dense(dense, layout, nullptr);
  return out.read();
}

// The last row's attention of head 0 over what the unit holds.
Attended attend(const DeviceUnit& unit, const UnitKind& kind, const LayerRows& rows,
                const DeviceRope& rope) {
  const AttentionShape& shape = rows.shape;
  const int d = shape.head_dim;
  const int group = shape.group();
  const bool relative = kind.positions != PositionMode::kAbsolute;
  const bool turns = kind.positions == PositionMode::kCacheRelative;
  const PageLayout layout = layout_of(kind.page);
  const int n = unit.n_slots();
  const DeviceArray<float> q(std::size_t(shape.n_heads) * d);
  QueryRows queries;
  queries.qkv = rows.device_qkv.data() + (rows.n - 1) * shape.row_floats();
  queries.row_floats = shape.row_floats();
  queries.n_heads = shape.n_heads;
  queries.n_rows = 1;
  queries.first_angle = relative ? n - 1 : kind.first_position + rows.n - 1;
  queries.scale = 1.0F / std::sqrt(float(d));
  queries.round_to_bf16 = layout.format == SlotFormat::kBF16 && !turns;
  queries.out = q.data();
  rotate_queries(queries, d, rope.rows(), nullptr);

  const DeviceArray<float> out(std::size_t(group) * d);
  const DeviceArray<float> logits(std::size_t(group) * n);
  const DeviceArray<float> weights(std::size_t(group) * n);
  const DeviceArray<float> partials(decode_partial_floats(1, group, d, n));
  AttendRow row;
  row.slots = {unit.pages(0), turns ? unit.rank(0) : nullptr, n};
  row.q = q.data();
  row.out = out.data();
  row.logits = logits.data();
  row.weights = weights.data();
  const DeviceArray<AttendRow> on_device(std::vector<AttendRow>{row});
  attend_rows(on_device.data(), 1, group, n, layout, rope.rows(), partials.data(), nullptr);
  Attended attended{q.read(), out.read(), logits.read(), weights.read()};
  attended.q.resize(std::size_t(group) * d);
  if (!turns) {
    EXPECT_TRUE(same_bits(attend_as_dense(row, rows, layout), attended.out)) << "as a dense row";
  }

  const DeviceArray<float> alone(std::size_t(group) * n);
  AttendRow only_logits = row;
  only_logits.out = only_logits.weights = nullptr;
  only_logits.logits = alone.data();
  AttendRow nothing = only_logits;  // no ghost yet
  nothing.slots.n_slots = 0;
  nothing.logits = nullptr;
  const DeviceArray<AttendRow> ghosts(std::vector<AttendRow>{nothing, only_logits});
  row_logits(ghosts.data(), 2, group, n, layout, rope.rows(), nullptr);
  EXPECT_TRUE(same_bits(alone.read(), attended.logits));
  return attended;
}

// Largest differences from softmax attention in double.
struct Errors {
  double out = 0.0;
  double logits = 0.0;
  double weights = 0.0;
};
Errors errors_of(const Attended& attended, const HostUnit& host, const UnitKind& kind,
                 const RopeTable& rope, int n_slots) {
  const HeadCache& head = host.heads[0];
  const int d = kind.page.head_dim;
  const int group = int(attended.q.size()) / d;
  Errors errors;
  for (int g = 0; g < group; ++g) {
    std::vector<double> z(n_slots);
    std::vector<float> key(d);
    std::vector<float> value(d);
    double most = -std::numeric_limits<double>::infinity();
    for (int slot = 0; slot < n_slots; ++slot) {
      head.read_key(slot, key.data());
      if (kind.positions == PositionMode::kCacheRelative)
        rotate_to(rope, std::vector<float>(key).data(), head.rank[slot], key.data());
      for (int i = 0; i < d; ++i) z[slot] += double(attended.q[g * d + i]) * double(key[i]);
      most = std::max(most, z[slot]);
      errors.logits =
          std::max(errors.logits, std::abs(z[slot] - double(attended.logits[g * n_slots + slot])));
    }
    double sum = 0.0;
    for (const double x : z) sum += std::exp(x - most);
    std::vector<double> out(d);
    for (int slot = 0; slot < n_slots; ++slot) {
      const double weight = std::exp(z[slot] - most) / sum;
      errors.weights =
          std::max(errors.weights, std::abs(weight - double(attended.weights[g * n_slots + slot])));
      head.read_value(slot, value.data());
      for (int i = 0; i < d; ++i) out[i] += weight * double(value[i]);
    }
    for (int i = 0; i < d; ++i)
      errors.out = std::max(errors.out, std::abs(out[i] - double(attended.out[g * d + i])));
  }
  return errors;
}

// A row without a rule, scanned and attended; then against plain loops.
Errors attended_errors(AttentionShape shape, SlotFormat format, PositionMode positions, int n_slots,
                       float scale) {
  UnitKind kind;
  kind.page = page_shape(shape.head_dim, format);
  kind.positions = positions;
  kind.first_position = n_slots - 1;
  const DeviceRope rope(shape.head_dim, n_slots + 1);
  const LayerRows before(shape, random_rows(shape, n_slots, scale, 4));
  const LayerRows row(shape, random_rows(shape, 1, scale, 5));
  HostUnit host = filled_unit(kind, before, 0, 1, n_slots - 1, rope);
  DeviceUnit unit(kind, host, 0, n_slots);
  run_scan({{&unit, &row}}, 1, scan_shape(shape, kind.page, rope));
  const Attended attended = attend(unit, kind, row, rope);
  std::vector<float> scanned = row.out.read();
  scanned.resize(attended.out.size());
  EXPECT_TRUE(same_bits(attended.out, scanned));
  std::vector<float> out(row.out_stride());
  run_host(host, kind, 0, row, 0, 1, rope.host, out.data());
  return errors_of(attended, host, kind, rope.host, n_slots);
}

TEST_F(Decode, AttendedRowsHaveTheBitsOfAScanAndTheValuesOfPlainLoops) {
  Errors worst;
  Errors worst_bf16;
  for (const SlotFormat format : kAllFormats) {
    for (const PositionMode positions : kModes) {
      for (const int n : {1, 31, 32, 33, 255, 256, 257}) {
        SCOPED_TRACE(::testing::Message()
                     << name_of(format) << ", positions " << int(positions) << ", " << n);
        const Errors errors = attended_errors({3, 1, 16}, format, positions, n, 1.5F);
        Errors& most = format == SlotFormat::kBF16 ? worst_bf16 : worst;
        most.out = std::max(most.out, errors.out);
        most.logits = std::max(most.logits, errors.logits);
        most.weights = std::max(most.weights, errors.weights);
      }
    }
  }
  // Largest seen: 9.2e-7, 1.3e-6 and 2.2e-7; weights that are rounded to bf16 shift outputs by up
  // to 2.0e-3.
  EXPECT_LT(worst.out, 5e-6);
  EXPECT_LT(worst_bf16.out, 5e-3);
  EXPECT_LT(worst.logits, 5e-6);
  EXPECT_LT(worst.weights, 1e-6);
  EXPECT_LT(std::max(worst_bf16.logits, worst_bf16.weights), kTensorRounding);
}

TEST_F(Decode, AttendsInEveryShapeAndOverManyChunks) {
  Errors worst;
  Errors worst_bf16;
  const auto attend_one = [&](AttentionShape shape, int n, float scale) {
    SCOPED_TRACE(::testing::Message()
                 << shape.n_heads << " heads of " << shape.head_dim << ", " << n << " slots");
    for (const SlotFormat format : {SlotFormat::kF32, SlotFormat::kBF16}) {
      const Errors errors = attended_errors(shape, format, PositionMode::kAbsolute, n, scale);
      Errors& most = format == SlotFormat::kBF16 ? worst_bf16 : worst;
      most.out = std::max(most.out, errors.out);
      most.logits = std::max(most.logits, errors.logits);
      most.weights = std::max(most.weights, errors.weights);
    }
  };
  for (const int head_dim : {8, 20, 64, 80, 128, 256, 512}) {
    for (const int group : {1, 3, 8}) attend_one({group, 1, head_dim}, 40, 1.0F);
  }
  attend_one({1, 1, 8}, 2100, 1.0F);
  attend_one({2, 1, 8}, 1500, 6.0F);  // most of the weight on few slots, chunks far apart
  // Largest seen: 3.4e-6, 1.8e-5 and 4.0e-7.
  EXPECT_LT(worst.out, 2e-5);
  EXPECT_LT(worst.logits, 1e-4);
  EXPECT_LT(worst.weights, 2e-6);
  // 1.4e-3, 8.2e-6 and 2.6e-7; logits reach 20.
  EXPECT_LT(worst_bf16.out, 5e-3);
  EXPECT_LT(worst_bf16.logits, 20 * kTensorRounding);
  EXPECT_LT(worst_bf16.weights, kTensorRounding);
}

}  // namespace
}  // namespace kvscope::cuda
