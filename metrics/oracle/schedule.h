// Eviction schedules in the replay frame (policies.md 8.7): which token leaves after which row.
// Tokens lose independently of each other, so a schedule is an injective map from eviction events
// to tokens that exist by then, and its loss is the sum of R_token(row).
#pragma once

#include <span>
#include <vector>

#include "metrics/oracle/future_mass.h"

namespace kvscope {

struct Eviction {
  int row = 0;  // the token is visible to this row and to none after it
  int token = 0;
  bool operator==(const Eviction&) const = default;
};
using Schedule = std::vector<Eviction>;

// After `row`, n_victims tokens have to leave so that at most B stay.
struct EvictionEvent {
  int row = 0;
  int n_victims = 0;
};

// The events that a budget forces (post-eviction timing, policies.md 1.2): P - B tokens at the
// prompt's end, then one a decode row from the first row that has more than B before it. Nothing
// after the last row, where no attention can be lost any more. budget_tokens >= 1.
std::vector<EvictionEvent> eviction_events(int prompt_tokens, int n_tokens, int budget_tokens);

// Full attention of the decode rows on tokens that were evicted before them. Evictions inside the
// prompt count from its end on. Throws std::invalid_argument on a token that does not exist yet, or
// leaves twice.
double lost_mass(const FutureMass& future, std::span<const Eviction> schedule);

}  // namespace kvscope
