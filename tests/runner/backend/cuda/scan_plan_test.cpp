#include "runner/backend/cuda/scan_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvscope::cuda {
namespace {

ScanJob job(int n_rows, int budget, int chunk = 1) {
  ScanJob job;
  job.n_rows = n_rows;
  job.chunk = chunk;
  job.rule.budget_tokens = budget;
  return job;
}

TEST(ScanPlan, ARuleThatEvictsNothingGrows) {
  const SlotCounts counts = count_slots(job(5, 0), 30, nullptr);
  EXPECT_EQ(counts.most, 35);
  EXPECT_EQ(counts.left, 35);
  EXPECT_FALSE(counts.slots_move);
}

TEST(ScanPlan, ABudgetIsKeptAfterEveryRow) {
  const SlotCounts counts = count_slots(job(5, 32), 30, nullptr);
  EXPECT_EQ(counts.most, 33);  // the row's own token stands beside the budget
  EXPECT_EQ(counts.left, 32);
  EXPECT_TRUE(counts.slots_move);
  EXPECT_FALSE(count_slots(job(2, 32), 30, nullptr).slots_move);
}

TEST(ScanPlan, ChunksCountOverTheWholeStretchAndItsLastRowSelects) {
  ScanJob chunked = job(4, 10, 3);
  chunked.rows_before = 1;  // selections after rows 1 (the third of the stretch) …
  chunked.rows_after = 1;   // … and not after the last of these
  std::vector<StepSlots> steps(4);
  const SlotCounts counts = count_slots(chunked, 10, steps.data());
  EXPECT_EQ(counts.most, 12);
  EXPECT_EQ(counts.left, 12);
  EXPECT_EQ(steps[0].visible_slots, 11);
  EXPECT_EQ(steps[0].resident_slots, 11);
  EXPECT_EQ(steps[1].visible_slots, 12);
  EXPECT_EQ(steps[1].resident_slots, 10);
  EXPECT_EQ(steps[3].resident_slots, 12);
  chunked.rows_after = 0;
  EXPECT_EQ(count_slots(chunked, 10, nullptr).left, 10);
}

TEST(ScanPlan, PagesFollowFromSlots) {
  std::vector<StepSlots> steps(2);
  count_slots(job(2, 32), 32, steps.data());
  EXPECT_EQ(steps[0].visible_pages, 2);
  EXPECT_EQ(steps[0].resident_pages, 1);
}

}  // namespace
}  // namespace kvscope::cuda
