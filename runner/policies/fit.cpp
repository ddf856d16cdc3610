#include "runner/base/error.h"
#include "runner/policies/params.h"
#include "runner/policies/parts.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

void check_request(const PolicySpec& spec, const FitRequest& request) {
  const std::string where = "policy \"" + spec.canonical + "\": ";
  const Budget& budget = request.budget;
  if (request.length < 1) {
    throw UsageError(where + "nothing to act on; give at least one token");
  }
  if (!spec.is_full()) {
    if (budget.permille.has_value() == budget.tokens.has_value()) {
      throw UsageError(where + "needs a budget, either a ratio or a number of tokens");
    }
    if (budget.tokens && *budget.tokens < 1) {
      throw UsageError(where + "a budget of " + std::to_string(*budget.tokens) +
                       " tokens keeps nothing; give at least 1");
    }
    if (budget.permille && (*budget.permille < 1 || *budget.permille > 1000)) {
      throw UsageError(where + "a budget of " + std::to_string(*budget.permille) +
                       " permille is out of range; give 1 to 1000");
    }
  }
  if (request.in_stream && !spec.acts_in_stream()) {
    throw UsageError(where +
                     "acts at the end of a prompt only; say how long the prompt is "
                     "(--prompt-tokens)");
  }
}

}  // namespace

std::shared_ptr<const Policy> finish_policy(std::unique_ptr<Policy> policy, const PolicySpec& spec,
                                            const FitRequest& request) {
  policy->never_evicts_ = never_evicts(spec, request);
  policy->acts_in_stream_ = spec.acts_in_stream();
  policy->budget_tokens_ =
      spec.is_full() ? request.length : request.budget.tokens_for(request.length);
  policy->chunk_ = spec.chunk;
  policy->every_ = spec.every;
  const Composition composition = compose(spec);
  policy->storage_ = composition.storage;
  policy->sparse_prefill_ = composition.sparse_prefill;
  policy->positions_ = spec.positions;
  policy->prefill_ = request.in_stream ? PrefillMode::kInStream : spec.prefill;
  return std::shared_ptr<const Policy>(std::move(policy));
}

std::shared_ptr<const Policy> fit_policy(const PolicySpec& spec, const FitRequest& request) {
  check_request(spec, request);
  if (spec.info == nullptr) throw UsageError("unknown policy \"" + spec.score + "\"");
  const int budget_tokens =
      spec.is_full() ? request.length : request.budget.tokens_for(request.length);
  return finish_policy(spec.info->make(spec, request, budget_tokens), spec, request);
}

}  // namespace kvscope
