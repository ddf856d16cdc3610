#include "runner/conform/request.h"

#include <algorithm>

namespace kvscope::conform {
namespace {

void add_sets(const Replay& replay, Outcome& outcome) {
  outcome.fault = replay.fault();
  if (!outcome.fault.empty()) return;
  for (int layer = 0; layer < replay.n_layers(); ++layer) {
    for (int h = 0; h < replay.n_kv_heads(); ++h) outcome.sets.push_back(replay.kept(h, layer));
  }
}

}  // namespace

FitRequest Situation::request() const {
  FitRequest request;
  request.budget.tokens = c.budget_tokens;
  request.length = in_stream ? c.n_tokens : c.prompt_tokens;
  request.in_stream = in_stream;
  return request;
}

void run_rows(Replay& replay, int first, int last, int every, Outcome& outcome) {
  for (int t = first; t <= last && replay.fault().empty(); t += every) {
    replay.chunk(t, std::min(t + every - 1, last));
    add_sets(replay, outcome);
  }
}

Outcome run(const PolicyPtr& policy, const Situation& s, const RequestOptions& options) {
  Replay replay(policy, s.c.layers, options.replay);
  Outcome outcome;
  if (s.prompt_tokens() > 0) {
    replay.prompt(s.prompt_tokens());
    add_sets(replay, outcome);
  }
  const int every = options.chunk > 0 ? options.chunk : policy->every();
  run_rows(replay, s.prompt_tokens(), s.c.n_tokens - 1, every, outcome);
  return outcome;
}

std::string text_of(const Positions& positions) {
  std::string text = "{";
  for (const auto position : positions)
    text += (text.size() > 1 ? ", " : "") + std::to_string(position);
  return text + "}";
}

std::string difference(const Outcome& got, const Outcome& wanted) {
  if (!got.fault.empty()) return got.fault;
  if (!wanted.fault.empty()) return wanted.fault;
  if (got == wanted) return {};
  if (got.sets.size() != wanted.sets.size()) return "another number of selections";
  for (std::size_t i = 0; i < got.sets.size(); ++i) {
    if (got.sets[i] == wanted.sets[i]) continue;
    return "set " + std::to_string(i) + " is " + text_of(got.sets[i]) + " instead of " +
           text_of(wanted.sets[i]);
  }
  return {};
}

}  // namespace kvscope::conform
