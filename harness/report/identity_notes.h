// What is said under a table about arms that did not do what was asked of them, or did the same as
// another. Notes are no errors: exit codes do not change.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/report/json.h"
#include "harness/store/queries.h"

namespace kvscope {

// One arm on one data set.
struct IdentityNote {
  std::int64_t arm_id = 0;
  std::string arm;  // label
  std::string task;
  std::string dataset;
  std::string dataset_key;
  std::string finding;            // name_of(IdentityFinding) or "same_sets_as"
  std::int64_t other_arm_id = 0;  // same_sets_as: the first earlier arm that kept the same
  std::string other;
  int n = 0;  // samples with the finding
  int n_samples = 0;
  double kept_tokens = 0.0;    // means over the n
  double budget_tokens = 0.0;  // likewise
};

// Of the given arms, which are compared with each other where both do (or both do not) see the
// question: an arm kept the same as an earlier one if it did so on every sample that both have, and
// evicted on some. Arms that differ only in what follows the selection (decode, every, positions,
// storage, the way a prompt is prefilled) are not compared, they are made to keep the same.
std::vector<IdentityNote> identity_notes(Store& store, std::span<const ArmRow> arms);

// "! snapkv+pyramid@0.200 kept the same tokens as snapkv@0.200 in 20 of 20 samples\n", one a line.
std::string notes_text(std::span<const IdentityNote> notes);
Json notes_json(std::span<const IdentityNote> notes);

}  // namespace kvscope
