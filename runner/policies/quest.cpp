// Quest: rows read the pages that can matter to them; nothing is evicted (Tang et al., ICML 2024,
// arXiv:2406.10774).
//
//   bound of a page = Σ_j max(q_j·min_j, q_j·max_j) over elementwise minima and maxima of its keys
//   a row attends to the newest page and the B/page - 1 others of largest bound (ties: newer)
//
// Needs     : keys' minima and maxima per page, 2·d/page floats per token and KV head.
// State     : those. Memory grows like the full cache's: the gain is in bytes read.
// Deviations: every layer selects (the official simulator keeps two dense); each query head chooses
// for itself, shared=true once per KV head by the largest bound of its group. A prompt is dense.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

class Quest final : public FittedPolicy {
 public:
  Quest(const PolicySpec& spec, const Fitting& fitting, const ReadRule& rule)
      : FittedPolicy(spec, fitting), rule_(rule) {
    record("pages", rule.n_pages);
  }
  std::optional<ReadRule> read_rule() const override {
    return never_evicts() ? std::nullopt : std::optional(rule_);
  }

 protected:
  PromptNeed cut_need() const override { return {}; }
  std::vector<PromptScores> prompt_scores(const PromptLayer&) const override { return {}; }

 private:
  ReadRule rule_;
};

std::unique_ptr<Policy> make_quest(const PolicySpec& spec, const FitRequest& request,
                                   int budget_tokens) {
  const int page = int_param(spec, "page");
  return std::make_unique<Quest>(
      spec, Fitting{.budget_tokens = budget_tokens, .prompt_tokens = request.length},
      ReadRule{page, std::max(1, budget_tokens / page), budget_tokens,
               spec.params.at("shared") == "true"});
}

constexpr std::array<ParamInfo, 2> kParams = {{
    {"page", "16", "1…"},
    {"shared", "false", "true|false"},
}};

}  // namespace

PolicyInfo quest_policy() {
  return {.name = "quest",
          .summary = "Evicts nothing; each row reads the B tokens in pages that can matter to it.",
          .paper = "Tang et al., ICML 2024, arXiv:2406.10774",
          .source = "runner/policies/quest.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_quest};
}

}  // namespace kvscope
