// Attention over quantised caches has the bits of attention over a float32 cache that holds the
// same values as they read back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "runner/backend/cpu/attention.h"
#include "runner/backend/cpu/page_kernels.h"
#include "runner/backend/cpu/slots.h"
#include "runner/base/splitmix.h"
#include "runner/engine/rope_table.h"

namespace kvscope {
namespace {

constexpr AttentionShape kShape{6, 2, 32};
constexpr int kOutFloats = kShape.n_heads * kShape.head_dim;

std::vector<float> random_rows(int n, std::uint64_t seed) {
  std::vector<float> qkv(n * kShape.row_floats());
  for (std::size_t i = 0; i < qkv.size(); ++i)
    qkv[i] = float(double(smix(smix(seed) ^ i) >> 11) * 0x1p-52 - 1.0) * 2.0F;
  return qkv;
}
const float* key_of(const float* row, int kv_head) {
  return row + std::size_t(kShape.n_heads + kv_head) * kShape.head_dim;
}
const float* value_of(const float* row, int kv_head) {
  return key_of(row, kv_head) + std::size_t(kShape.n_kv_heads) * kShape.head_dim;
}

// A float32 cache with the same slots, each as it reads back.
HeadCache as_f32(const HeadCache& head, PagePool& pool) {
  HeadCache copy(&pool);
  std::vector<float> x(kShape.head_dim);
  for (int slot = 0; slot < head.n_slots(); ++slot) {
    copy.append_slot(head.positions()[slot], {});
    head.read_key(slot, x.data());
    write_key(pool, copy.page_of(slot), slot % kPageSlots, x.data());
    head.read_value(slot, x.data());
    write_value(pool, copy.page_of(slot), slot % kPageSlots, x.data());
  }
  copy.rank = head.rank;
  return copy;
}

// One row over all slots of a float32 cache, by the block arithmetic alone: [group][head_dim].
std::vector<float> attend(const HeadCache& head, const RopeTable& rope, const float* row,
                          int kv_head, int angle, bool rotate_keys) {
  const int d = kShape.head_dim;
  const int group = kShape.group();
  std::vector<float> q(group * d), out(group * d), rotated(cpu::kBlockPages * d * kPageSlots);
  std::vector<cpu::QueryState> states(group);
  for (int g = 0; g < group; ++g) {
    cpu::rotate_row(rope, row + (kv_head * group + g) * d, angle, 1.0F / std::sqrt(float(d)),
                    q.data() + g * d);
    states[g] = {q.data() + g * d, out.data() + g * d};
  }
  cpu::for_each_block(head, head.n_slots(), [&](std::span<cpu::PageView> pages, int first) {
    for (std::size_t i = 0; rotate_keys && i < pages.size(); ++i) {
      float* keys = rotated.data() + i * d * kPageSlots;
      cpu::rotate_page(pages[i].keys, DType::kF32, d, rope,
                       head.rank.data() + first + i * kPageSlots, pages[i].live, keys);
      pages[i].keys = reinterpret_cast<const std::byte*>(keys);
    }
    for (auto& state : states)
      state.live = std::min(cpu::kBlockPages * kPageSlots, head.n_slots() - first);
    cpu::attend_block(states, pages, d);
  });
  for (int g = 0; g < group; ++g) cpu::scale_row(out.data() + g * d, d, 1.0F / states[g].sum);
  return out;
}

struct Case {
  std::string name;
  KvFormat format = KvFormat::kPlain;
  std::optional<KiviOptions> kivi;
  int budget_tokens = 0;  // h2o; 0: grows
  PositionMode positions = PositionMode::kAbsolute;

  HeadCache head(PagePool& pool) const {
    HeadCache head(&pool);
    if (kivi) head.set_kivi(*kivi);
    return head;
  }
  ScanJob job(HeadCache* heads, int kv_head, const float* qkv, float* out, int first, int n) const {
    ScanJob job;
    job.first_kv_head = kv_head;
    job.heads = heads + kv_head;
    job.qkv = qkv + first * kShape.row_floats();
    job.qkv_stride = kShape.row_floats();
    job.out = out + first * kOutFloats;
    job.out_stride = kOutFloats;
    job.n_rows = n;
    job.rows_before = first;
    job.first_position = first;
    job.positions = positions;
    if (budget_tokens > 0) {
      job.rule.statistic = ScanRule::Statistic::kSum;
      job.rule.victim = ScanRule::Victim::kLowest;
      job.rule.budget_tokens = budget_tokens;
      job.rule.recent = budget_tokens / 2;
    }
    return job;
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const KvFormat format : {KvFormat::kInt8, KvFormat::kFp8E4M3, KvFormat::kFp8E5M2}) {
    const std::string name(name_of(format));
    all.push_back({name, format, {}, 0, PositionMode::kAbsolute});
    all.push_back({name + "_relative", format, {}, 0, PositionMode::kCacheRelative});
    for (const PositionMode mode :
         {PositionMode::kAbsolute, PositionMode::kCacheRelative, PositionMode::kRerotate}) {
      all.push_back({name + "_h2o_" + std::string(name_of(mode)), format, {}, 150, mode});
    }
  }
  for (const KiviOptions& options : {KiviOptions{2, 32, 32}, KiviOptions{4, 8, 40},
                                     KiviOptions{2, 4, 4}, KiviOptions{8, 16, 128}}) {
    const std::string name = "kivi_" + std::to_string(options.bits) + "_" +
                             std::to_string(options.group) + "_" +
                             std::to_string(options.residual_tokens);
    all.push_back({name, KvFormat::kPlain, options, 0, PositionMode::kAbsolute});
    all.push_back({name + "_relative", KvFormat::kPlain, options, 0, PositionMode::kCacheRelative});
  }
  return all;
}

std::vector<Case> growing_cases() {
  std::vector<Case> growing = cases();
  std::erase_if(growing, [](const Case& c) { return c.budget_tokens > 0; });
  return growing;
}

class QuantisedAttention : public ::testing::TestWithParam<Case> {};
class QuantisedCut : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Storage, QuantisedCut, ::testing::ValuesIn(growing_cases()),
                         [](const auto& p) { return p.param.name; });
INSTANTIATE_TEST_SUITE_P(Storage, QuantisedAttention, ::testing::ValuesIn(cases()),
                         [](const auto& p) { return p.param.name; });

// Row after row: what the row sees is copied, read back and attended to in float32.
TEST_P(QuantisedAttention, ARowHasTheBitsOfFloat32AttentionOverWhatIsReadBack) {
  const Case& c = GetParam();
  constexpr int kRows = 330;
  const std::vector<float> qkv = random_rows(kRows, 31);
  const RopeTable rope = make_rope_table(kShape.head_dim, 10000.0, kRows + 1);
  ThreadPool threads(2);
  PagePool pool({kShape.head_dim, DType::kF32, true, c.format});
  PagePool f32({kShape.head_dim, DType::kF32, true});
  std::vector<HeadCache> heads(kShape.n_kv_heads, c.head(pool));
  std::vector<float> out(kRows * kOutFloats);
  for (int r = 0; r < kRows; ++r) {
    const float* row = qkv.data() + r * kShape.row_floats();
    const bool check = r < 40 || r % 7 == 0 || r + 1 == kRows;
    std::vector<std::vector<float>> expected;
    for (int h = 0; check && h < kShape.n_kv_heads; ++h) {
      HeadCache seen = heads[h];
      const bool relative = c.positions != PositionMode::kAbsolute;
      const int slot = seen.append_slot(r, {.rank = relative});
      if (relative) seen.rank[slot] = slot;
      std::optional<int> angle = r;
      if (c.positions == PositionMode::kRerotate) angle = slot;
      if (c.positions == PositionMode::kCacheRelative) angle.reset();
      cpu::write_slot(seen, slot, key_of(row, h), value_of(row, h), rope, angle);
      expected.push_back(attend(as_f32(seen, f32), rope, row, h, relative ? slot : r,
                                c.positions == PositionMode::kCacheRelative));
    }
    std::vector<ScanJob> jobs;
    for (int h = 0; h < kShape.n_kv_heads; ++h)
      jobs.push_back(c.job(heads.data(), h, qkv.data(), out.data(), r, 1));
    cpu::scan(threads, kShape, rope, jobs);
    for (std::size_t h = 0; h < expected.size(); ++h) {
      const float* got = out.data() + r * kOutFloats + h * expected[h].size();
      ASSERT_EQ(std::memcmp(got, expected[h].data(), expected[h].size() * sizeof(float)), 0)
          << "row " << r << " head " << h;
    }
  }
  // All rows in one job: the same bits.
  std::vector<float> together(out.size());
  std::vector<HeadCache> others(kShape.n_kv_heads, c.head(pool));
  std::vector<ScanJob> jobs;
  for (int h = 0; h < kShape.n_kv_heads; ++h)
    jobs.push_back(c.job(others.data(), h, qkv.data(), together.data(), 0, kRows));
  cpu::scan(threads, kShape, rope, jobs);
  EXPECT_EQ(std::memcmp(together.data(), out.data(), out.size() * sizeof(float)), 0);
  EXPECT_EQ(others[0].physical_bytes(), heads[0].physical_bytes());
}

// A prompt's rows attend in full precision; what is kept of it is quantised afterwards.
TEST_P(QuantisedCut, AGatheredPromptIsWhatItsTokensQuantiseTo) {
  const Case& c = GetParam();
  constexpr int kRows = 200;
  const std::vector<float> qkv = random_rows(kRows, 32);
  const RopeTable rope = make_rope_table(kShape.head_dim, 10000.0, kRows + 1);
  ThreadPool threads(2);
  PagePool pool({kShape.head_dim, DType::kF32, true, c.format});
  std::vector<std::int32_t> keep;
  for (int position = 0; position < kRows; ++position) {
    if (position % 3 != 1) keep.push_back(position);
  }
  HeadCache head = c.head(pool);
  const GatherJob job{&head, 1, keep, qkv.data(), kRows, c.positions};
  cpu::gather(threads, kShape, rope, {&job, 1});
  HeadCache one_by_one = c.head(pool);
  for (const std::int32_t position : keep) {
    const float* row = qkv.data() + position * kShape.row_floats();
    std::optional<int> angle = position;
    if (c.positions == PositionMode::kCacheRelative) angle.reset();
    cpu::write_slot(one_by_one, one_by_one.append_slot(position, {}), key_of(row, 1),
                    value_of(row, 1), rope, angle);
    one_by_one.advance_quantisation();
  }
  ASSERT_EQ(head.n_slots(), int(keep.size()));
  EXPECT_EQ(head.physical_bytes(), one_by_one.physical_bytes());
  EXPECT_EQ(head.logical_bytes(), one_by_one.logical_bytes());
  std::vector<float> x(kShape.head_dim), y(kShape.head_dim);
  for (int slot = 0; slot < head.n_slots(); ++slot) {
    head.read_key(slot, x.data());
    one_by_one.read_key(slot, y.data());
    EXPECT_EQ(x, y) << slot;
    head.read_value(slot, x.data());
    one_by_one.read_value(slot, y.data());
    EXPECT_EQ(x, y) << slot;
  }
}

std::vector<float> dense(std::vector<HeadCache>& heads, const std::vector<float>& qkv,
                         const RopeTable& rope, std::vector<float>* lse) {
  ThreadPool threads(2);
  const int n = int(qkv.size() / kShape.row_floats());
  std::vector<float> out(n * kOutFloats);
  lse->resize(std::size_t(n) * kShape.n_heads);
  cpu::attend_dense(threads, kShape, rope,
                    {heads.data(), qkv.data(), out.data(), n, 0, lse->data()});
  return out;
}

TEST(QuantisedPrompt, KiviAttendsToThePromptInFullPrecision) {
  const std::vector<float> qkv = random_rows(150, 33);
  const RopeTable rope = make_rope_table(kShape.head_dim, 10000.0, 151);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    PagePool pool({kShape.head_dim, dtype, true});
    std::vector<HeadCache> plain(kShape.n_kv_heads, HeadCache(&pool));
    std::vector<HeadCache> kivi = plain;
    for (HeadCache& head : kivi) head.set_kivi({2, 32, 32});
    std::vector<float> lse;
    EXPECT_EQ(dense(kivi, qkv, rope, &lse), dense(plain, qkv, rope, &lse)) << name_of(dtype);
    EXPECT_EQ(kivi[0].kivi()->n_keys(), 128);
    EXPECT_EQ(kivi[0].kivi()->n_values(), 118);
    EXPECT_EQ(kivi[0].n_pages(), 2);
  }
}

// A residual that holds everything leaves the plain arm's bits, in every element type.
TEST(QuantisedPrompt, KiviWithoutQuantisedTokensIsThePlainArm) {
  constexpr int kRows = 300;
  const std::vector<float> qkv = random_rows(kRows, 34);
  const RopeTable rope = make_rope_table(kShape.head_dim, 10000.0, kRows + 1);
  ThreadPool threads(2);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    PagePool pool({kShape.head_dim, dtype, true});
    std::vector<std::vector<float>> outs;
    for (const bool is_kivi : {false, true}) {
      Case c;
      if (is_kivi) c.kivi = KiviOptions{2, 32, 320};
      std::vector<HeadCache> heads(kShape.n_kv_heads, c.head(pool));
      std::vector<float>& out = outs.emplace_back(kRows * kOutFloats);
      std::vector<ScanJob> jobs;
      for (int h = 0; h < kShape.n_kv_heads; ++h)
        jobs.push_back(c.job(heads.data(), h, qkv.data(), out.data(), 0, kRows));
      cpu::scan(threads, kShape, rope, jobs);
    }
    EXPECT_EQ(std::memcmp(outs[0].data(), outs[1].data(), outs[0].size() * sizeof(float)), 0)
        << name_of(dtype);
  }
}

// A residual in 16 bits is quantised as it is held, and read beside codes as float32.
TEST(QuantisedPrompt, KiviOnHalfPagesReadsWhatThePagesHeld) {
  constexpr int kRows = 140;
  const std::vector<float> qkv = random_rows(kRows, 35);
  const RopeTable rope = make_rope_table(kShape.head_dim, 10000.0, kRows + 1);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    PagePool pool({kShape.head_dim, dtype, true});
    PagePool f32({kShape.head_dim, DType::kF32, true});
    HeadCache kivi(&pool);
    kivi.set_kivi({4, 16, 48});
    HeadCache plain(&pool);
    HeadCache wide(&f32);
    wide.set_kivi({4, 16, 48});
    std::vector<float> x(kShape.head_dim), y(kShape.head_dim);
    for (int r = 0; r < kRows; ++r) {
      const float* row = qkv.data() + r * kShape.row_floats();
      for (HeadCache* head : {&kivi, &plain})
        cpu::write_slot(*head, head->append_slot(r, {}), key_of(row, 0), value_of(row, 0), rope, r);
      wide.append_slot(r, {});
      copy_slot(pool, plain.page_of(r), r % kPageSlots, f32, wide.page_of(r), r % kPageSlots);
      kivi.advance_quantisation();
      wide.advance_quantisation();
    }
    for (int slot = 0; slot < kRows; ++slot) {
      kivi.read_key(slot, x.data());
      wide.read_key(slot, y.data());
      EXPECT_EQ(x, y);
      kivi.read_value(slot, x.data());
      wide.read_value(slot, y.data());
      EXPECT_EQ(x, y);
    }
    cpu::for_each_block(kivi, kRows, [&](std::span<const cpu::PageView> pages, int first) {
      EXPECT_EQ(pages[0].dtype, first < kRows - 48 ? DType::kF32 : dtype);
    });
  }
}

TEST(QuantisedPrompt, DenseRowsAndColumnWeightsOverInt8AreThoseOverWhatIsReadBack) {
  constexpr int kRows = 150;
  const std::vector<float> qkv = random_rows(kRows, 36);
  const RopeTable rope = make_rope_table(kShape.head_dim, 10000.0, kRows + 1);
  ThreadPool threads(2);
  PagePool pool({kShape.head_dim, DType::kF32, true, KvFormat::kInt8});
  PagePool f32({kShape.head_dim, DType::kF32, true});
  std::vector<HeadCache> heads(kShape.n_kv_heads, HeadCache(&pool));
  std::vector<float> lse;
  const std::vector<float> out = dense(heads, qkv, rope, &lse);
  std::vector<HeadCache> wide;
  for (const HeadCache& head : heads) wide.push_back(as_f32(head, f32));
  const float* last = qkv.data() + (kRows - 1) * kShape.row_floats();
  for (int h = 0; h < kShape.n_kv_heads; ++h) {
    const auto expected = attend(wide[h], rope, last, h, kRows - 1, false);
    EXPECT_EQ(std::memcmp(out.data() + (kRows - 1) * kOutFloats + h * expected.size(),
                          expected.data(), expected.size() * sizeof(float)),
              0);
  }
  const PromptNeed need{PromptNeed::Rows::kAll, 0, 1.0F, false};
  std::vector<float> a(std::size_t(kShape.n_heads) * kRows), b(a.size());
  cpu::column_weights(threads, kShape, rope,
                      {heads.data(), qkv.data(), lse.data(), kRows, need, a.data()});
  cpu::column_weights(threads, kShape, rope,
                      {wide.data(), qkv.data(), lse.data(), kRows, need, b.data()});
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace kvscope
