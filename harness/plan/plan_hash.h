// What makes two sweeps the same sweep, so that one can go on where the other stopped.
#pragma once

#include <string>
#include <vector>

#include "harness/plan/arms.h"

namespace kvscope {

struct PlanIdentity {
  std::string model_key;
  std::vector<std::string> arm_keys;  // in order
  std::vector<std::string>
      dataset_keys;  // in order, each with its task in front: "needle:<sha-256>"
  std::string probe_level;
  bool beyond_context = false;
};

// sha-256; threads, files and listeners do not count, as they change no result.
std::string plan_hash(const PlanIdentity& identity);

}  // namespace kvscope
