#include "runner/backend/cuda/scan_plan.h"

#include <algorithm>

namespace kvscope::cuda {
namespace {

int pages_for(int n_slots) { return (n_slots + kPageSlots - 1) / kPageSlots; }

}  // namespace

SlotCounts count_slots(const ScanJob& job, int n_slots, StepSlots* steps) {
  SlotCounts counts;
  counts.most = counts.left = n_slots;
  for (int r = 0; r < job.n_rows; ++r) {
    const int visible = counts.left + 1;
    const bool chunk_ends =
        (job.rows_before + r + 1) % job.chunk == 0 || r + 1 == job.n_rows + job.rows_after;
    const bool evicts = chunk_ends && job.rule.evicts() && visible > job.rule.budget_tokens;
    counts.most = std::max(counts.most, visible);
    counts.left = evicts ? job.rule.budget_tokens : visible;
    counts.slots_move = counts.slots_move || evicts;
    if (steps == nullptr) continue;
    steps[r] = {visible, pages_for(visible), counts.left, pages_for(counts.left), {}, {}};
  }
  return counts;
}

}  // namespace kvscope::cuda
