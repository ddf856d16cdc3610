#include "runner/trace/replay_policy.h"

#include "runner/base/error.h"

namespace kvscope {

std::shared_ptr<const Policy> fit_replay_policy(PolicySpec spec, const FitRequest& request,
                                                const TraceFacts& facts) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError("policy \"" + spec.canonical + "\" cannot be replayed: " + why);
  };
  spec.positions = PositionMode::kAbsolute;
  std::shared_ptr<const Policy> policy = fit_policy(spec, request);
  if (policy->storage().is_quantised())
    refuse("storage changes numbers, not what stays; leave the storage part out");
  if (policy->sparse_prefill())
    refuse("a sparse prompt has other attention than the recorded one; leave that part out");
  if (policy->read_rule()) refuse("it chooses what to read and evicts nothing; use kvscope score");
  if (!request.in_stream && policy->make_cascade() != nullptr && !facts.has_all_layers()) {
    refuse("its layers share one total and the trace has " + std::to_string(facts.layers.size()) +
           " of " + std::to_string(facts.n_layers) + " layers; record with --layers all");
  }
  return policy;
}

}  // namespace kvscope
