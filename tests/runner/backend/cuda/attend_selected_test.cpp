// Attention over chosen slots against plain loops in double, the CPU's, and dense rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "runner/backend/cpu/attend_selected.h"
#include "runner/backend/cuda/prompt_attention.h"
#include "tests/runner/backend/cuda/attention_fixture.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

using Choice = std::vector<SlotRange>;

std::vector<int> slots_of(const Choice& choice) {
  std::vector<int> slots;
  for (const SlotRange& range : choice) {
    for (int slot = range.begin; slot < range.end; ++slot) slots.push_back(slot);
  }
  return slots;
}

// out: [n_queries][head_dim]. q: the same.
std::vector<float> run_selected(const DeviceHeads& heads, const PageShape& shape,
                                const std::vector<std::int32_t>& head_of_query,
                                const std::vector<Choice>& choices, const std::vector<float>& q) {
  const auto head_dim = std::size_t(shape.head_dim);
  const DeviceArray<float> out(q.size());
  std::vector<SlotRange> all;
  std::vector<std::int32_t> first = {0};
  std::vector<float*> rows;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    all.insert(all.end(), choices[i].begin(), choices[i].end());
    first.push_back(std::int32_t(all.size()));
    rows.push_back(out.data() + i * head_dim);
  }
  const DeviceArray<std::int32_t> head_device(head_of_query);
  const DeviceArray<float> q_device(q);
  const DeviceArray<SlotRange> ranges(all);
  const DeviceArray<std::int32_t> first_device(first);
  const DeviceArray<float*> rows_device(rows);
  attend_selected({heads.data(), head_device.data(), q_device.data(), ranges.data(),
                   first_device.data(), rows_device.data(), int(choices.size())},
                  layout_of(shape), nullptr);
  return out.read();
}

// Choices that meet every border of pages, chunks and of the ranges that are looked at at once.
std::vector<Choice> various_choices(int n_slots) {
  std::vector<Choice> choices = {
      {{0, 1}},
      {{n_slots - 1, n_slots}},
      {{0, n_slots}},
      {{31, 33}},
      {{0, 32}, {64, 65}},
      {{5, 261}},
      {{5, 262}},
      {{0, 4}, {n_slots - 300, n_slots}},
  };
  Choice columns;  // more than there are threads, one slot each
  for (int slot = 1; slot < n_slots; slot += 2) columns.push_back({slot, slot + 1});
  choices.push_back(columns);
  Choice ends_a_chunk(columns.begin(), columns.begin() + 256);
  choices.push_back(ends_a_chunk);
  ends_a_chunk.push_back({600, 640});
  choices.push_back(ends_a_chunk);
  std::mt19937 generator(1);
  for (int i = 0; i < 4; ++i) {
    Choice runs;
    for (int slot = int(generator() % 5); slot < n_slots;) {
      const int end = std::min(n_slots, slot + 1 + int(generator() % (1U << (2 * i + 1))));
      runs.push_back({slot, end});
      slot = end + 1 + int(generator() % 9);
    }
    choices.push_back(runs);
  }
  return choices;
}

class CudaAttendSelected : public DeviceTest {};

TEST_F(CudaAttendSelected, TwoOfThreeSlotsByHand) {
  const float ln2 = std::log(2.0F);
  HostHeads host(page_shape(2, SlotFormat::kF32), 1, 0, 0);
  host.append(0, {0.0F, 5.0F}, {3.0F, 0.0F});
  host.append(0, {100.0F, 0.0F}, {9.0F, 9.0F});
  host.append(0, {ln2, 7.0F}, {0.0F, 3.0F});
  const auto out = run_selected(DeviceHeads(host.heads), host.pool.shape(), {0}, {{{0, 1}, {2, 3}}},
                                {1.0F, 0.0F});
  EXPECT_FLOAT_EQ(out[0], 1.0F);
  EXPECT_FLOAT_EQ(out[1], 2.0F);
}

TEST_F(CudaAttendSelected, NoQueriesAreAllowed) {
  attend_selected({}, layout_of(page_shape(8, SlotFormat::kF32)), nullptr);
}

struct Shape {
  int head_dim;
  SlotFormat format;
};
class CudaAttendSelectedShapes : public CudaAttendSelected,
                                 public ::testing::WithParamInterface<Shape> {
 protected:
  const PageShape shape = page_shape(GetParam().head_dim, GetParam().format);
};

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  for (const SlotFormat format : {SlotFormat::kF32, SlotFormat::kBF16}) {
    for (const int head_dim : {8, 16, 64, 80, 128, 256, 510}) shapes.push_back({head_dim, format});
  }
  for (const SlotFormat format :
       {SlotFormat::kF16, SlotFormat::kInt8, SlotFormat::kFp8E4M3, SlotFormat::kFp8E5M2})
    shapes.push_back({70, format});
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttendSelectedShapes, ::testing::ValuesIn(all_shapes()),
                         [](const auto& p) {
                           return std::string(name_of(p.param.format)) + "_" +
                                  std::to_string(p.param.head_dim);
                         });

TEST_P(CudaAttendSelectedShapes, EqualsPlainLoopsAndTheCpu) {
  constexpr int kSlots = 701;
  const HostHeads host(shape, 2, kSlots, 1);
  const auto choices = various_choices(kSlots);
  const auto head_dim = std::size_t(shape.head_dim);
  const auto q = random_queries(choices.size(), shape, 2);
  std::vector<std::int32_t> head_of_query(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) head_of_query[i] = std::int32_t(i % 2);
  const auto out = run_selected(DeviceHeads(host.heads), shape, head_of_query, choices, q);
  double worst = 0.0;
  float worst_of_cpu = 0.0F;
  std::vector<float> scratch;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const HeadCache& head = host.heads[head_of_query[i]];
    const auto query = std::span(q).subspan(i * head_dim, head_dim);
    const PlainRow plain(head, query, slots_of(choices[i]));
    std::vector<float> logits(kSlots);
    std::vector<float> key(head_dim);
    for (int slot = 0; slot < kSlots; ++slot) {
      head.read_key(slot, key.data());
      for (std::size_t k = 0; k < head_dim; ++k) logits[slot] += query[k] * key[k];
    }
    std::vector<KeyRange> ranges;
    for (const SlotRange& range : choices[i]) ranges.push_back({range.begin, range.end});
    std::vector<float> of_cpu(head_dim);
    cpu::attend_selected(head, logits, ranges, of_cpu, scratch);
    for (std::size_t k = 0; k < head_dim; ++k) {
      worst = std::max(worst, std::abs(plain.out[k] - double(out[i * head_dim + k])));
      worst_of_cpu = std::max(worst_of_cpu, std::abs(of_cpu[k] - out[i * head_dim + k]));
    }
  }
  // Largest seen 9.8e-7 and 5.4e-7; weights rounded to bf16, which this CPU function does not do:
  // 1.9e-3.
  EXPECT_LT(worst, shape.in_pairs() ? 1e-2 : 5e-6);
  EXPECT_LT(worst_of_cpu, shape.in_pairs() ? 1e-2 : 5e-6);
}

TEST_P(CudaAttendSelectedShapes, AQueryAloneHasTheBitsItHasAmongOthers) {
  constexpr int kSlots = 701;
  const HostHeads host(shape, 1, kSlots, 3);
  const DeviceHeads heads(host.heads);
  const auto choices = various_choices(kSlots);
  const auto q = random_queries(choices.size(), shape, 4);
  const auto head_dim = std::size_t(shape.head_dim);
  const auto all =
      run_selected(heads, shape, std::vector<std::int32_t>(choices.size(), 0), choices, q);
  for (const std::size_t i : {std::size_t(2), choices.size() - 1}) {
    const auto part = std::span(q).subspan(i * head_dim, head_dim);
    EXPECT_TRUE(same_bits(run_selected(heads, shape, {0}, {choices[i]}, {part.begin(), part.end()}),
                          std::span(all).subspan(i * head_dim, head_dim)));
  }
}

// Neighbouring ranges are the same choice as one range.
TEST_P(CudaAttendSelectedShapes, AllSlotsHaveTheBitsOfADenseRow) {
  for (const int n_slots : {1, 31, 32, 33, 255, 256, 257, 600}) {
    const HostHeads host(shape, 1, n_slots, 5);
    const DeviceHeads heads(host.heads);
    const auto q = random_queries(1, shape, 6);
    const DeviceArray<float> q_device(q);
    const DeviceArray<float> out(q.size());
    attend_dense({heads.data(), q_device.data(), out.data(), nullptr, 0, {1, 1}, 1, n_slots - 1},
                 layout_of(shape), nullptr);
    const auto dense = out.read();
    EXPECT_TRUE(same_bits(run_selected(heads, shape, {0}, {{{0, n_slots}}}, q), dense)) << n_slots;
    Choice pieces;
    for (int slot = 0; slot < n_slots; slot += 7)
      pieces.push_back({slot, std::min(n_slots, slot + 7)});
    EXPECT_TRUE(same_bits(run_selected(heads, shape, {0}, {pieces}, q), dense)) << n_slots;
  }
}

TEST_P(CudaAttendSelectedShapes, SlotsBesideTheChosenAreNotSeen) {
  constexpr int kSlots = 300;
  HostHeads host(shape, 1, kSlots, 7);
  Choice even;
  for (int slot = 0; slot < kSlots; slot += 2) even.push_back({slot, slot + 1});
  const auto q = random_queries(1, shape, 8);
  const auto clean = run_selected(DeviceHeads(host.heads), shape, {0}, {even}, q);
  const std::vector<float> bad(shape.head_dim, std::numeric_limits<float>::infinity());
  for (int slot = 1; slot < kSlots; slot += 2) {
    write_key(host.pool, host.heads[0].page_of(slot), slot % kPageSlots, bad.data());
    write_value(host.pool, host.heads[0].page_of(slot), slot % kPageSlots, bad.data());
  }
  EXPECT_TRUE(same_bits(run_selected(DeviceHeads(host.heads), shape, {0}, {even}, q), clean));
}

}  // namespace
}  // namespace kvscope::cuda
