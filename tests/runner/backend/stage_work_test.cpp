#include "runner/backend/stage_work.h"

#include <gtest/gtest.h>

#include <array>

namespace kvscope {
namespace {

constexpr AttentionShape kShape{4, 2, 8};  // groups of 2
constexpr int kRowBytes = 2 * 8 * 6 * 4;   // q and out of 4 heads, k and v of 2

class StageWorkTest : public ::testing::Test {
 protected:
  HeadCache head_with(int slots) {
    HeadCache head(&pool_);
    for (int i = 0; i < slots; ++i) head.append_slot(i, {});
    return head;
  }
  static void expect_work(const StageWork& work, double flops, double bytes) {
    EXPECT_EQ(work.flops, flops);
    EXPECT_EQ(work.bytes, bytes);
  }

  PagePool pool_{{8, DType::kF32, true}};  // 64 bytes a token
};

TEST_F(StageWorkTest, AProductReadsItsWeightsOnce) {
  struct Matrix final : PackedMatrix {
    int n_out() const override { return 3; }
    int n_in() const override { return 4; }
    std::size_t bytes() const override { return 48; }
  };
  expect_work(matmul_work(Matrix(), 2), 2 * 2 * 3 * 4, 48 + 2 * (3 + 4) * 4);
}

TEST_F(StageWorkTest, ElementwiseStages) {
  expect_work(embed_work(3, 3 * 8), 0, 3 * 4 + 3 * 8 * 4);
  expect_work(rms_norm_work(2, 8), 4 * 16, (16 + 16 + 8) * 4);
  expect_work(swiglu_work(2, 8), 5 * 16, 3 * 16 * 4);
  expect_work(add_work(16), 16, 3 * 16 * 4);
  expect_work(log_sum_exp_work(2 * 8, 2), 3 * 16, 16 * 4 + 2 * 8);
  const std::array<float, 8> logits{};
  LogitPair pair;
  pair.full = logits;
  const std::array<LogitPair, 3> pairs{pair, pair, pair};
  expect_work(compare_logits_work(pairs), 3 * 7 * 8, 3 * 2 * 8 * 4);
}

TEST_F(StageWorkTest, DenseRowsAreCausalAndReadEachTokenOnce) {
  HeadCache heads[] = {head_with(5), head_with(5)};
  DenseJob job;
  job.heads = heads;
  job.n_rows = 3;
  // Rows see 3, 4 and 5 slots.
  expect_work(dense_work(kShape, job, 2), 4 * 8 * 4 * 12, 64 * 2 * 5 + 3 * kRowBytes);
  job.n_rows = 0;
  expect_work(dense_work(kShape, job, 2), 0, 0);
}

TEST_F(StageWorkTest, AScanCountsTheSlotsThatItsRowsSaw) {
  HeadCache head = head_with(6);
  std::array<StepSlots, 2> steps{};
  steps[0].visible_slots = 5;
  steps[1].visible_slots = 6;
  ScanJob job;
  job.heads = &head;
  job.n_rows = 2;
  job.steps = steps.data();
  const double flops = 4 * 8 * 2 * (5 + 6);
  const double bytes = 64 * (5 + 6) + 2 * kRowBytes / 2;  // one of two KV heads
  expect_work(scan_work(kShape, job, 4), flops, bytes);
  job.steps = nullptr;  // a cache that grew from 4 to 6
  expect_work(scan_work(kShape, job, 4), flops, bytes);
}

TEST_F(StageWorkTest, AScanThatEvictsIsCappedWhereStepsAreNotAsked) {
  HeadCache head = head_with(6);
  ScanJob job;
  job.heads = &head;
  job.n_rows = 4;
  job.rule.budget_tokens = 6;
  // From 5 slots: rows see 6, 7, 7 and 7.
  EXPECT_EQ(scan_work(kShape, job, 5).flops, 4 * 8 * 2 * (6 + 7 + 7 + 7));
}

TEST_F(StageWorkTest, ColumnWeightsReadKeysOnly) {
  HeadCache heads[] = {head_with(5), head_with(5)};
  ColumnWeightsJob job;
  job.heads = heads;
  job.n_rows = 5;
  expect_work(column_weights_work(kShape, job), 0, 0);
  job.need.rows = PromptNeed::Rows::kLast;
  job.need.last_rows = 2;
  // Rows see 4 and 5 slots; queries, log-sum-exps and the sums are floats.
  expect_work(column_weights_work(kShape, job), 2 * 8 * 4 * 9,
              32 * 2 * 5 + (2 * 4 * 8 + 2 * 4 + 4 * 5) * 4);
  job.need.rows = PromptNeed::Rows::kAll;
  EXPECT_EQ(column_weights_work(kShape, job).flops, 2 * 8 * 4 * 15);
}

TEST_F(StageWorkTest, GatherCopiesWhatIsKept) {
  HeadCache head(&pool_);
  const std::array<std::int32_t, 2> keep{0, 4};
  GatherJob job;
  job.head = &head;
  job.keep = keep;
  job.n_rows = 5;
  expect_work(gather_work(kShape, job), 0, 2 * (2 * 8 * 4 + 64));
}

}  // namespace
}  // namespace kvscope
