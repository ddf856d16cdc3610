// One arm over given token ids: what `kvscope score` computes, before it is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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
  bool probe = false;
  bool token_major = false;
};

struct ScoredIds {
  ScoreArmResult arm;
  double sum_nll_nats = 0.0;
  int n_scored = 0;
  // Only with `probe`; rebound and hits only where a full attention over the ghosts is defined
  // (neither `full` nor cache-relative).
  std::optional<ProbeSummary> probes;
  double sum_kl_full_nats = 0.0;  // over n_compared positions
  std::int64_t n_top1_agrees = 0;
  std::int64_t n_compared = 0;
};

// Throws UsageError: a prompt-end policy without a prompt, a prompt longer than the ids, parameters
// that do not fit the budget.
ScoredIds score_ids(Engine& engine, const ScoreRun& run, std::span<const std::int32_t> ids);

}  // namespace kvscope
