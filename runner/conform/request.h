// One request of a random case, driven to its end.
#pragma once

#include <string>
#include <vector>

#include "runner/conform/random_cases.h"
#include "runner/conform/replay.h"
#include "runner/conform/subject.h"

namespace kvscope::conform {

// A subject in one random case.
struct Situation {
  const Subject& subject;
  const RandomCase& c;
  bool in_stream = false;

  int prompt_tokens() const { return in_stream ? 0 : c.prompt_tokens; }
  FitRequest request() const;
  PolicyPtr policy() const { return subject.make(request()); }
};

// Kept sets by selection, layer and KV head. A breach of the interface ends the list and is its
// last entry's place in the text.
struct Outcome {
  std::vector<Positions> sets;
  std::string fault;
  bool operator==(const Outcome&) const = default;
};

struct RequestOptions {
  ReplayOptions replay = {};
  int chunk = 0;  // rows between selections after the prompt; 0: the policy's own
};

Outcome run(const PolicyPtr& policy, const Situation& s, const RequestOptions& options = {});
// From where a replay stands, tokens first … last.
void run_rows(Replay& replay, int first, int last, int every, Outcome& outcome);

std::string text_of(const Positions& positions);  // "{0, 2, 3}"
// "" where both are equal, else where they part: "after selection 2: {0, 1} instead of {0, 2}".
std::string difference(const Outcome& got, const Outcome& wanted);

}  // namespace kvscope::conform
