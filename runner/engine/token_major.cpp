#include "runner/engine/token_major.h"

#include <algorithm>

#include "runner/engine/step_batch.h"
#include "runner/engine/token_scores.h"

namespace kvscope {

namespace {

struct ArmState {
  RowRule how;
  Sequence sequence;
  SharedVector<float> hidden;  // [T - first][d_model]
  int first = 0;               // tokens before it were a prompt
  Account account{PageShape{}};
  std::size_t prefill_rows = 0;
  PrefillMode mode = PrefillMode::kInStream;
  SparseMeasure sparse;
  int account_first = 0;  // first token of the account's rows
  int rule_first = 0;     // first row under `how`: `every` counts from it
};

// Empty caches with the rule's state started, or the prompt done the way the arm asks.
bool start_arm(EngineContext& context, Forward& forward, const ScoreRequest& request,
               const ScoreArm& arm, ArmState& state, const StopRequested& stop) {
  const AttentionShape shape = context.model.attention_shape(0);
  state.hidden = SharedVector<float>(context.backend.memory());
  state.how = after_rule(*arm.policy, arm.probe);
  state.account =
      Account(context.pool_of(arm.policy->storage()).shape(), context.model.page_shape());
  if (arm.policy->is_dense()) state.how.positions = PositionMode::kAbsolute;
  if (arm.in_stream || arm.policy->is_dense()) {
    state.sequence = make_sequence(context, *arm.policy, arm.probe);
    if (!arm.in_stream) {
      state.prefill_rows = request.prompt_tokens;
      state.mode = PrefillMode::kMonolithic;
    }
    for (int layer = 0; layer < context.model.config.n_layers; ++layer) {
      start_unit_states(state.sequence, layer, context.model.config.n_layers, shape, *arm.policy,
                        state.how, {});
    }
    return true;
  }
  const PassArm pass_arm{arm.policy.get(), arm.probe, false};
  const PassRequest prompt{
      request.tokens.first(request.prompt_tokens), request.prompt_tokens, false, true, false, true};
  LayerPass pass(context, forward, prompt, {&pass_arm, 1});
  if (!pass.run(stop)) return false;
  PassResult& result = pass.results()[0];
  state.account_first = result.mode == PrefillMode::kStreaming ? 0 : request.prompt_tokens;
  if (result.mode == PrefillMode::kStreaming || arm.policy->sparse_prefill()) {
    context.backend.sync();
    state.hidden.assign(result.hidden.begin(), result.hidden.end());
  } else {
    state.first = request.prompt_tokens;
  }
  state.rule_first = request.prompt_tokens;
  state.sparse = result.sparse;
  state.sequence = std::move(result.sequence);
  state.account = std::move(result.account);
  state.prefill_rows = result.prefill_rows;
  state.mode = result.mode;
  return true;
}

}  // namespace

std::optional<std::vector<ScoreArmResult>> score_token_major(EngineContext& context,
                                                             Forward& forward,
                                                             const ScoreRequest& request,
                                                             std::span<const ScoreArm> arms,
                                                             const StopRequested& stop) {
  const ModelConfig& c = context.model.config;
  const int n_tokens = int(request.tokens.size());
  std::vector<ArmState> states(arms.size());
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (!start_arm(context, forward, request, arms[i], states[i], stop)) return std::nullopt;
  }
  StepBatch batch(context, forward);
  std::vector<StepRow> rows;
  for (int t = 0; t < n_tokens; ++t) {
    if (stop && stop()) return std::nullopt;
    rows.clear();
    std::vector<ArmState*> fed;
    for (ArmState& state : states) {
      const int done = state.first + int(state.hidden.size() / c.d_model);
      if (t < done) continue;
      rows.push_back({&state.sequence, state.how, request.tokens[t], t, &state.account,
                      std::size_t(t - state.account_first), t - state.rule_first,
                      n_tokens - 1 - t});
      fed.push_back(&state);
    }
    if (rows.empty()) continue;
    const std::span<const float> x = batch.run(rows);
    context.backend.sync();
    for (std::size_t i = 0; i < fed.size(); ++i) {
      const auto row = x.subspan(i * c.d_model, c.d_model);
      fed[i]->hidden.insert(fed[i]->hidden.end(), row.begin(), row.end());
    }
  }
  context.backend.sync();
  // Rows before an arm's own, and what arms are compared with, are the dense pass's.
  const bool needs_reference =
      request.compare_full || std::any_of(states.begin(), states.end(),
                                          [](const ArmState& state) { return state.first > 0; });
  const PassRequest dense{request.tokens, 0, true, false, false, true};
  LayerPass reference(context, forward, dense, {});
  if (needs_reference && !reference.run(stop)) return std::nullopt;
  std::vector<ScoreArmResult> results(arms.size());
  std::vector<HiddenRows> hidden;
  for (const ArmState& state : states) hidden.push_back({state.hidden, state.first});
  TokenScorer scorer(context, forward, request, results);
  const std::span<const float> reference_hidden =
      needs_reference ? reference.dense_hidden() : std::span<const float>();
  if (!scorer.score(0, n_tokens, reference_hidden, hidden, stop)) return std::nullopt;
  if (request.advanced) request.advanced(n_tokens);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    ArmState& state = states[i];
    if (request.want_residents) {
      for (const HeadCache& head : state.sequence.heads)
        results[i].resident_positions.push_back(head.sorted_positions());
    }
    std::int64_t ghost_bytes = 0;
    for (const HeadCache& head : state.sequence.ghosts) ghost_bytes += head.physical_bytes();
    state.account.ghosts(ghost_bytes);
    results[i].mode = state.mode;
    if (std::string error = state.sequence.rule_error(); !error.empty())
      results[i].error = std::move(error);
    results[i].ledger =
        state.account.finish(state.prefill_rows, c.n_layers * c.n_kv_heads, n_tokens);
    state.sparse.tell(results[i].ledger);
    for (int layer = 0; layer < c.n_layers; ++layer) {
      results[i].ledger.bytes_by_layer.push_back(layer_bytes(state.sequence, layer, c.n_kv_heads));
    }
  }
  return results;
}

}  // namespace kvscope
