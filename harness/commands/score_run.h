// One arm over given token ids: what `kvscope score` computes, before it is printed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harness/tasks/probe_level.h"
#include "metrics/probes/probe_summary.h"
#include "runner/engine/engine.h"
#include "runner/policies/spec.h"

namespace kvscope {

struct ScoreRun {
  PolicySpec spec;
  Budget budget;
  std::optional<int> prompt_tokens;  // nothing: the policy acts from the first token
  int top = 0;
  bool want_residents = false;
  ProbeOptions probes;
  bool token_major = false;
  int first_scored = 1;  // tokens before it are context only
};

struct ScoredIds {
  ScoreArmResult arm;
  double sum_nll_nats = 0.0;
  int n_scored = 0;
  // Unless probes are off; rebound and hits only where a full attention over the ghosts is defined
  // (neither `full` nor cache-relative).
  std::optional<ProbeSummary> probes;
  double sum_kl_full_nats = 0.0;  // over n_compared positions
  std::int64_t n_top1_agrees = 0;
  std::int64_t n_compared = 0;
};

// Nothing if `stop` ended it. advanced: called with 0 when the request was accepted, then with
// every number of tokens that are done. Throws UsageError: a prompt-end policy without a prompt, a
// prompt longer than the ids, parameters that do not fit the budget.
std::optional<ScoredIds> score_ids(Engine& engine, const ScoreRun& run,
                                   std::span<const std::int32_t> ids,
                                   const StopRequested& stop = {},
                                   const std::function<void(int)>& advanced = {});

}  // namespace kvscope
