#include "harness/commands/score_run.h"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

#include "metrics/probes/attention_probe.h"
#include "runner/base/error.h"

namespace kvscope {

std::optional<ScoredIds> score_ids(Engine& engine, const ScoreRun& run,
                                   std::span<const std::int32_t> ids, const StopRequested& stop,
                                   const std::function<void(int)>& advanced) {
  const int length = int(ids.size());
  if (length < 1) throw DataError("score: the text has no tokens");
  const bool in_stream = !run.prompt_tokens;
  if (in_stream && !run.spec.is_full() && !run.spec.acts_in_stream()) {
    throw UsageError("score: " + run.spec.canonical +
                     " acts at the end of a prompt only: add --prompt-tokens N");
  }
  if (run.prompt_tokens && (*run.prompt_tokens < 1 || *run.prompt_tokens > length)) {
    throw UsageError("--prompt-tokens " + std::to_string(*run.prompt_tokens) + ": the text has " +
                     std::to_string(length) + " tokens");
  }

  FitRequest fit;
  fit.budget = run.budget;
  fit.length = in_stream ? length : *run.prompt_tokens;
  fit.in_stream = in_stream;
  ScoreArm arm;
  arm.policy = fit_policy(run.spec, fit);
  require_suited(*arm.policy, engine.model().config);
  arm.in_stream = in_stream;

  const ModelConfig& config = engine.model().config;
  std::unique_ptr<AttentionProbe> probe;
  if (run.probe && !arm.policy->never_evicts() && !arm.policy->read_rule() &&
      arm.policy->positions() == PositionMode::kAbsolute) {
    probe = std::make_unique<AttentionProbe>(
        AttentionProbeShape{config.n_layers, config.n_kv_heads, config.group()});
    arm.probe = probe.get();
  }

  ScoreRequest request;
  request.tokens = ids;
  request.prompt_tokens = run.prompt_tokens.value_or(0);
  request.top = run.top;
  request.want_residents = run.want_residents;
  request.compare_full = run.probe;
  request.token_major = run.token_major;
  request.first_scored = run.first_scored;
  request.advanced = advanced;
  auto results = engine.score(request, std::span(&arm, 1), stop);
  if (!results) return std::nullopt;

  ScoredIds scored;
  scored.arm = std::move(results->at(0));
  if (!scored.arm.error.empty()) {
    throw std::runtime_error(run.spec.canonical + ": " + scored.arm.error);
  }
  for (const double nll : scored.arm.nll_nats) {
    if (std::isnan(nll)) continue;  // not scored: the first token, or context only
    scored.sum_nll_nats += nll;
    ++scored.n_scored;
  }
  if (probe) scored.probes = probe->summary();
  for (std::size_t t = 0; t < scored.arm.kl_full_nats.size(); ++t) {
    if (std::isnan(scored.arm.kl_full_nats[t])) continue;
    scored.sum_kl_full_nats += double(scored.arm.kl_full_nats[t]);
    scored.n_top1_agrees += scored.arm.top1_agrees[t];
    ++scored.n_compared;
  }
  return scored;
}

}  // namespace kvscope
