// Engine::score: layer-major over all arms, then the head over the scored rows.
#include <algorithm>

#include "runner/base/error.h"
#include "runner/engine/engine_impl.h"
#include "runner/engine/token_major.h"
#include "runner/engine/token_scores.h"

namespace kvscope {

namespace {

void check(const ScoreRequest& request, std::span<const ScoreArm> arms) {
  if (request.tokens.empty()) throw UsageError("nothing to score: the text has no tokens");
  if (arms.empty()) throw UsageError("nothing to score: no policy given");
  if (request.prompt_tokens < 0 || request.prompt_tokens > int(request.tokens.size())) {
    throw UsageError("a prompt of " + std::to_string(request.prompt_tokens) +
                     " tokens does not fit the text of " + std::to_string(request.tokens.size()));
  }
  for (const ScoreArm& arm : arms) {
    if (arm.in_stream && !arm.policy->acts_in_stream() && !arm.policy->is_dense()) {
      throw UsageError("this policy acts at the prompt's end only: give --prompt-tokens");
    }
    if (!arm.in_stream && !arm.policy->is_dense() && request.prompt_tokens == 0) {
      throw UsageError(
          "this policy acts at the prompt's end and there is no prompt: give --prompt-tokens");
    }
  }
}

// Arms whose layers share one total: a layer's rows after the prompt need the cuts of all layers,
// so the prompt passes all layers first. False: stopped.
bool cascade_prompts(EngineContext& context, Forward& forward, const ScoreRequest& request,
                     std::vector<PassArm>& arms, std::vector<PassResult>& prompts,
                     const StopRequested& stop) {
  std::vector<PassArm> cascading;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (arms[i].in_stream || arms[i].policy->make_cascade() == nullptr) continue;
    cascading.push_back(arms[i]);
    which.push_back(i);
  }
  if (cascading.empty()) return true;
  PassRequest prompt{request.tokens.first(request.prompt_tokens), request.prompt_tokens};
  prompt.keep_caches = true;
  prompt.want_hidden = false;
  LayerPass pass(context, forward, prompt, cascading);
  if (!pass.run(stop)) return false;
  prompts.resize(which.size());
  for (std::size_t k = 0; k < which.size(); ++k) {
    prompts[k] = std::move(pass.results()[k]);
    arms[which[k]].prompt_done = &prompts[k];
  }
  return true;
}

}  // namespace

std::optional<std::vector<ScoreArmResult>> Engine::score(const ScoreRequest& request,
                                                         std::span<const ScoreArm> arms,
                                                         const StopRequested& stop) {
  check(request, arms);
  const int n_tokens = int(request.tokens.size());
  impl_->require_tokens(request.tokens, "score");
  const int context_length = impl_->context.model.config.context_length;
  bool all_bounded = !request.compare_full;
  int slots = 0;
  for (const ScoreArm& arm : arms) {
    all_bounded = all_bounded && has_bounded_positions(*arm.policy, arm.in_stream, context_length);
    slots = std::max(slots, bounded_slots(*arm.policy, arm.in_stream));
  }
  if (!all_bounded) impl_->require_context(n_tokens, "score");
  impl_->context.cover_positions(1 + (all_bounded ? slots : n_tokens));
  if (request.advanced) request.advanced(0);
  if (request.token_major)
    return score_token_major(impl_->context, impl_->forward, request, arms, stop);

  std::vector<PassArm> pass_arms;
  for (const ScoreArm& arm : arms)
    pass_arms.push_back({arm.policy.get(), arm.probe, arm.in_stream});
  std::vector<PassResult> prompts;
  if (!cascade_prompts(impl_->context, impl_->forward, request, pass_arms, prompts, stop))
    return std::nullopt;
  PassRequest pass_request{request.tokens, request.prompt_tokens,  request.compare_full,
                           false,          request.want_residents, true};
  pass_request.chunk_tokens =
      request.chunk_tokens > 0 ? request.chunk_tokens : flat_chunk_tokens(pass_arms);
  pass_request.full_rows = request.full_rows;
  LayerPass pass(impl_->context, impl_->forward, pass_request, pass_arms);

  std::vector<ScoreArmResult> results(arms.size());
  TokenScorer scorer(impl_->context, impl_->forward, request, results);
  const auto score_chunk = [&](int begin, int end) {
    std::vector<HiddenRows> hidden;
    for (const PassResult& result : pass.results())
      hidden.push_back({result.hidden, result.first_position});
    const std::span<const float> reference =
        pass.has_dense() ? pass.dense_hidden() : std::span<const float>();
    if (!scorer.score(begin, end, reference, hidden, stop)) return false;
    if (request.advanced) request.advanced(end - begin);
    return true;
  };
  if (!pass.run(stop, score_chunk)) return std::nullopt;

  const ModelConfig& c = impl_->context.model.config;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    PassResult& from = pass.results()[i];
    results[i].resident_positions = std::move(from.resident_positions);
    results[i].mode = from.mode;
    if (std::string error = from.sequence.rule_error(); !error.empty())
      results[i].error = std::move(error);
    results[i].ledger = from.account.finish(from.prefill_rows, c.n_layers * c.n_kv_heads, n_tokens);
    results[i].ledger.bytes_by_layer = std::move(from.bytes_by_layer);
    from.sparse.tell(results[i].ledger);
  }
  return results;
}

}  // namespace kvscope
