// What a scan does to the number of slots, which follows from the rule alone: so the host knows
// sizes without asking the device.
#pragma once

#include <span>

#include "runner/backend/backend.h"

namespace kvscope::cuda {

struct SlotCounts {
  int most = 0;             // visible in any row
  int left = 0;             // after the last row
  bool slots_move = false;  // a row evicts
};

// Of a job whose rule is data, and whose heads hold n_slots before. steps: optional, filled for one
// head (slots and pages; nothing lies beyond them).
SlotCounts count_slots(const ScanJob& job, int n_slots, StepSlots* steps);

}  // namespace kvscope::cuda
