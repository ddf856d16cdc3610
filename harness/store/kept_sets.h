// What the store knows about the tokens that arms kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace kvscope {

// One finished sample of one arm.
struct KeptSetsRow {
  std::string task;
  std::string dataset;
  std::string dataset_key;
  std::int64_t sample_id = 0;
  std::string mode_run;  // how the prompt really ran
  std::string kept_sets_hash;
  int budget_tokens = 0;
  int offered_tokens = 0;
  double kept_tokens = 0.0;
  double final_tokens = 0.0;
  std::string finding;  // name_of(IdentityFinding); "": none
};

// In order of sample; nothing from files of programs that did not look.
std::vector<KeptSetsRow> kept_sets(Store& store, std::int64_t arm_id);

}  // namespace kvscope
