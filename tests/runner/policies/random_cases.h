// Seeded random attention and the variants of every registered policy, for property tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/runner/policies/replay.h"

namespace kvscope::testing {

// SplitMix64 stream: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  int between(int low, int high);  // inclusive
  double uniform();                // [0, 1)

 private:
  std::uint64_t state_;
};

struct RandomCase {
  int n_kv_heads = 1;
  int group = 1;  // query heads a KV head
  int prompt_tokens = 1;
  int budget_tokens = 1;
  AttentionTable table;
};

// Up to 3 × 3 heads and 20 tokens; a third of the tables hold small integers, so that exact ties
// occur.
RandomCase random_case(std::uint64_t seed);

// Texts of one policy or all in the registry: the defaults, and each other choice of each
// enumerated parameter; common parameters too. New policies are included without a change here.
std::vector<std::string> variants_of(const PolicyInfo& info);
std::vector<std::string> all_variants();

// Of those, what parse_policy says about its in-stream rule.
bool acts_in_stream(const std::string& text);

}  // namespace kvscope::testing
