// What many arms cost beside the full arm alone, on one prompt.
#pragma once

#include "harness/gpu_check/check_model.h"
#include "harness/gpu_check/speed.h"

namespace kvscope {

struct SweepSpeed {
  int n_arms = 0;                   // beside full
  double full_seconds = 0.0;        // full alone, its answer only
  double answers_seconds = 0.0;     // with all arms, answers only
  double sweep_full_seconds = 0.0;  // full alone, as a sweep runs it: three rows an arm
  double sweep_seconds = 0.0;
  MemoryFigures memory;  // of full alone
};

// `check` has not run anything yet: its pool's peak is read.
SweepSpeed measure_sweep_speed(CheckModel& check, const SpeedWork& work);

}  // namespace kvscope
