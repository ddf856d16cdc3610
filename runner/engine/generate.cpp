// Engine::generate: one dense prefill a sample, shared; then all arms of all samples decode as rows
// of one batch.
#include <algorithm>
#include <chrono>

#include "runner/base/error.h"
#include "runner/engine/decode_rows.h"
#include "runner/engine/engine_impl.h"

namespace kvscope {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check(const GenerateRequest& request) {
  if (request.arms.empty()) throw UsageError("nothing to generate with: no policy given");
  if (request.prompt.empty()) throw UsageError("the prompt is empty");
  if (request.prefix.empty() && request.prompt.size() < 2) {
    throw UsageError(
        "a prompt of one token leaves nothing to select from: its last token is fed after the "
        "selection");
  }
  if (request.max_new_tokens < 1) throw UsageError("--max-new-tokens must be at least 1");
  if (request.forced && !request.arms[0].policy->is_dense()) {
    throw UsageError("forced rows follow the full cache's answer: the first arm must be full");
  }
}

// Prompt and fed tokens of a request: without a prefix the prompt's last token is held back.
std::span<const std::int32_t> prompt_of(const GenerateRequest& r) {
  return r.prefix.empty() ? r.prompt.first(r.prompt.size() - 1) : r.prompt;
}
std::span<const std::int32_t> feed_of(const GenerateRequest& r) {
  return r.prefix.empty() ? r.prompt.last(1) : r.prefix;
}

}  // namespace

std::optional<std::vector<std::vector<GenerateArmResult>>> Engine::generate(
    std::span<const GenerateRequest> requests, const StopRequested& stop) {
  const ModelConfig& c = impl_->context.model.config;
  std::vector<DecodeSample> samples;
  for (const GenerateRequest& request : requests) {
    check(request);
    impl_->require_tokens(request.prompt, "prompt");
    impl_->require_tokens(request.prefix, "answer prefix");
    impl_->require_tokens(request.gold, "gold answer");
    const int longest = int(prompt_of(request).size() + feed_of(request).size()) +
                        std::max(request.max_new_tokens, int(request.gold.size()));
    const bool all_bounded =
        std::all_of(request.arms.begin(), request.arms.end(), [&](const GenerateArm& arm) {
          return has_bounded_positions(*arm.policy, false, c.context_length);
        });
    if (!all_bounded) impl_->require_context(longest, "generate");
    impl_->context.cover_positions(longest + 1);
  }
  for (const GenerateRequest& request : requests) {
    const auto start = Clock::now();
    const std::span<const std::int32_t> prompt = prompt_of(request);
    std::vector<PassArm> arms;
    for (const GenerateArm& arm : request.arms)
      arms.push_back({arm.policy.get(), arm.probe, false});
    PassRequest pass_request{prompt, int(prompt.size()),     false, true, request.want_residents,
                             false,  flat_chunk_tokens(arms)};
    std::unique_ptr<PrefixStore::Prompt> prefix;
    const bool has_dense = std::any_of(arms.begin(), arms.end(), [](const PassArm& arm) {
      const bool own_rows =
          arm.policy->prefill() == PrefillMode::kStreaming || arm.policy->sparse_prefill();
      return arm.policy->is_dense() || !own_rows;
    });
    if (impl_->prefixes && has_dense) prefix = impl_->prefixes->start(prompt);
    pass_request.prefix = prefix.get();
    LayerPass pass(impl_->context, impl_->forward, pass_request, arms);
    if (!pass.run(stop)) return std::nullopt;
    if (prefix) prefix->finish();
    const double all_seconds = seconds_since(start);

    double cut_seconds = 0.0;
    for (const PassResult& result : pass.results()) cut_seconds += result.seconds;
    DecodeSample sample{request, feed_of(request), int(prompt.size()), {}};
    for (std::size_t i = 0; i < arms.size(); ++i) {
      PassResult& from = pass.results()[i];
      DecodeArm arm;
      arm.result.resident_positions = std::move(from.resident_positions);
      arm.result.mode = from.mode;
      arm.result.prefill_seconds = all_seconds - cut_seconds + from.seconds;
      arm.how = after_rule(*arms[i].policy, arms[i].probe);
      if (from.is_dense)
        arm.how = RowRule{};  // grows, absolute positions, like the dense rows it continues
      arm.prefill_rows = from.prefill_rows;
      arm.sparse = from.sparse;
      arm.account = std::move(from.account);
      arm.account_rows = arm.account.n_rows();
      arm.sequence = from.is_dense ? pass.dense_sequence().fork() : std::move(from.sequence);
      sample.arms.push_back(std::move(arm));
    }
    samples.push_back(std::move(sample));
  }
  if (!decode_rows(impl_->context, impl_->forward, samples, stop)) return std::nullopt;

  std::vector<std::vector<GenerateArmResult>> results;
  for (DecodeSample& sample : samples) {
    std::vector<GenerateArmResult>& row = results.emplace_back();
    for (DecodeArm& arm : sample.arms) {
      arm.result.ledger =
          arm.account.finish(arm.prefill_rows, c.n_layers * c.n_kv_heads, arm.tokens_seen);
      arm.result.ledger.bytes_by_layer = std::move(arm.bytes_by_layer);
      arm.sparse.tell(arm.result.ledger);
      row.push_back(std::move(arm.result));
    }
  }
  return results;
}

}  // namespace kvscope
