#include "harness/tasks/identity_check.h"

#include <algorithm>
#include <charconv>

#include "runner/base/sha256.h"
#include "runner/policies/parts.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

// How far the mean number of resident tokens may be from the budget where an arm does what it was
// made for.
struct Slack {
  double above = 1e-9;  // means over up to some thousand caches, of integers: exact but for the
  double below = 1e-9;  // division
};

// Of fitted parameters; 0 where the policy has no number of that name.
int fitted(const Policy& policy, const std::string& name) {
  const auto found = policy.fitted_params().find(name);
  int value = 0;
  if (found != policy.fitted_params().end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), value);
  }
  return value;
}

Slack slack_of(const KeptSetsRequest& request) {
  const Policy& policy = request.policy;
  const Composition parts = compose(request.spec);
  Slack slack;
  // Whole numbers of tokens for each layer or head.
  if (parts.allocates()) slack.above = slack.below = 1.0;
  // A page leaves as a whole once the newest is full.
  int page = parts.page ? parts.page->page_tokens : 0;
  if (request.spec.info->own_page) page = fitted(policy, "block");
  if (page > 1) {
    slack.above += page - 1;
    slack.below += page - 1;
  }
  slack.above += policy.every() - 1;
  if (policy.prefill() == PrefillMode::kStreaming) slack.above += policy.chunk() - 1;
  // Several leave at once, and the cache refills.
  if (const int drop = fitted(policy, "drop"); drop > 1) slack.below += drop - 1;
  return slack;
}

// The part of an ascending set below `end`.
std::span<const std::int32_t> below(const std::vector<std::int32_t>& set, int end) {
  return std::span(set).first(std::size_t(std::ranges::lower_bound(set, end) - set.begin()));
}

std::optional<IdentityFinding> finding_of(const KeptSetsRequest& request, const KeptSets& kept,
                                          bool grows) {
  const Policy& policy = request.policy;
  if (request.spec.is_full() || policy.read_rule()) return std::nullopt;
  const Slack slack = slack_of(request);
  const auto differs = [&](double tokens, double offered) {
    const double wanted = std::min<double>(kept.budget_tokens, offered);
    return tokens > wanted + slack.above || tokens < wanted - slack.below;
  };
  if (request.ledger.evicted_tokens == 0) {
    if (kept.budget_tokens >= kept.offered_tokens) return IdentityFinding::kHeldEverything;
    if (kept.offered_tokens > kept.budget_tokens + slack.above)
      return IdentityFinding::kEvictedNothing;
    return std::nullopt;
  }
  if (differs(kept.kept_tokens, kept.offered_tokens)) return IdentityFinding::kOtherRatio;
  if (grows) return std::nullopt;
  const double seen = kept.final_tokens + static_cast<double>(request.ledger.evicted_tokens) /
                                              static_cast<double>(request.residents.size());
  if (differs(kept.final_tokens, seen)) return IdentityFinding::kOtherRatioLater;
  return std::nullopt;
}

}  // namespace

KeptSets check_kept_sets(const KeptSetsRequest& request) {
  const bool grows = request.prompt_tokens > 0 && !request.policy.scan_rule();
  KeptSets kept;
  kept.budget_tokens = request.policy.budget_tokens();
  kept.offered_tokens = grows ? request.prompt_tokens : request.tokens_seen;
  std::vector<std::int32_t> content;  // of each cache in order: how many, then which
  std::int64_t total = 0;
  for (const std::vector<std::int32_t>& all : request.residents) {
    const auto set = below(all, kept.offered_tokens);
    content.push_back(static_cast<std::int32_t>(set.size()));
    content.insert(content.end(), set.begin(), set.end());
    total += static_cast<std::int64_t>(set.size());
  }
  kept.kept_sets_hash = sha256_hex(std::as_bytes(std::span(content)));
  kept.kept_tokens = static_cast<double>(total) / static_cast<double>(request.residents.size());
  kept.final_tokens = request.ledger.mean_resident_tokens;
  kept.finding = finding_of(request, kept, grows);
  return kept;
}

}  // namespace kvscope
