// The synthetic requests of runner/conform under the names that tests use.
#pragma once

#include "runner/conform/random_cases.h"
#include "runner/conform/replay.h"
#include "runner/conform/subject.h"

namespace kvscope::testing {

using conform::AttentionTable;
using conform::column_weights;
using conform::fitted;
using conform::Positions;
using conform::probabilities;
using conform::Random;
using conform::RandomCase;
using conform::Replay;
using conform::SyntheticLayer;

// The three shapes in turn.
inline RandomCase random_case(int seed) {
  return conform::random_case(conform::kShapes[seed % 3], static_cast<std::uint64_t>(seed));
}

inline std::vector<std::string> all_variants() {
  std::vector<std::string> texts;
  for (const PolicyInfo& info : policies()) {
    const auto variants = conform::variants_of(info);
    texts.insert(texts.end(), variants.begin(), variants.end());
  }
  return texts;
}

}  // namespace kvscope::testing
