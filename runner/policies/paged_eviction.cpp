// PagedEviction: whole pages leave by value-to-key norm (arXiv:2509.04377; policies.md 2.16).
//
//   token score = ‖v_i‖₂ / ‖k_i‖₂, mean over the layer's KV heads
//   page score  = mean over its tokens
//   keep        : at the prompt's end the first sink_blocks·block tokens, the newest `block` and
//                 the best others; then, whenever the newest page has become full and more than B
//                 tokens are resident, the page of lowest score leaves (ties: older), never a sink
//                 page nor the newest
//
// Needs     : keys and values, each once.
// State     : the score and page of each token, once a layer (8 bytes).
// Deviations: none known; the paper's page score, sharing and protected areas could not be checked
// against official code.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/host_policy.h"
#include "runner/policies/key_scores.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

// [n], mean over KV heads in order. keys, values: [n_kv_heads][n][dim]
std::vector<float> mean_ratios(std::span<const float> keys, std::span<const float> values,
                               int n_kv_heads, int dim) {
  const std::size_t head = keys.size() / n_kv_heads;
  std::vector<float> mean(head / dim, 0.0F);
  for (int h = 0; h < n_kv_heads; ++h) {
    const auto ratios =
        value_key_norm_ratios(keys.subspan(h * head, head), values.subspan(h * head, head), dim);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += ratios[i];
  }
  for (float& value : mean) value /= static_cast<float>(n_kv_heads);
  return mean;
}

class NormRatios final : public ScoreState {
 public:
  explicit NormRatios(std::vector<float> scores) : scores_(std::move(scores)) {}

  std::unique_ptr<ScoreState> clone() const override { return std::make_unique<NormRatios>(*this); }
  void observe(const VisibleRow& row) override {
    const int n_kv_heads = row.reader->n_kv_heads();
    scores_.push_back(
        mean_ratios(row.keys, row.values, n_kv_heads, row.reader->head_dim()).front());
  }
  std::vector<float> scores(const Slots&) const override { return scores_; }
  void compact(std::span<const std::int32_t> old_slot_of) override {
    std::vector<float> scores;
    for (const std::int32_t slot : old_slot_of) scores.push_back(scores_[slot]);
    scores_ = std::move(scores);
  }

  std::int64_t state_bytes() const override {
    return static_cast<std::int64_t>(scores_.size() * sizeof(float));
  }

 private:
  std::vector<float> scores_;  // [n_slots]
};

class PagedEviction final : public FittedPolicy {
 public:
  PagedEviction(const PolicySpec& spec, const Fitting& fitting) : FittedPolicy(spec, fitting) {
    record("block", fitting.page->page_tokens);
    record("sink_blocks", fitting.page->sink_pages);
  }

 protected:
  PromptNeed cut_need() const override { return {.keys = true, .values = true}; }
  std::unique_ptr<ScoreState> make_score(UnitPlace) const override {
    return std::make_unique<NormRatios>(std::vector<float>{});
  }
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override {
    std::vector<PromptScores> units(1);
    units[0].scores = mean_ratios(layer.keys, layer.values, layer.n_kv_heads, layer.head_dim);
    units[0].state = std::make_unique<NormRatios>(units[0].scores);
    return units;
  }
};

std::unique_ptr<Policy> make_paged_eviction(const PolicySpec& spec, const FitRequest& request,
                                            int budget_tokens) {
  const int block = fit_param(spec, request, "block", 16, std::max(1, budget_tokens / 2),
                              budget_tokens, "the budget");
  const int spare = std::max(0, (budget_tokens - block) / block);
  const int sink_blocks = fit_param(spec, request, "sink_blocks", 1, spare, spare,
                                    "the budget's pages less the newest");
  return std::make_unique<PagedEviction>(
      spec, Fitting{.budget_tokens = budget_tokens,
                    .prompt_tokens = request.length,
                    .rule = host_rule(budget_tokens, ScanRule::Scope::kLayer, sizeof(float)),
                    .one_set = true,
                    .protection = {sink_blocks * block, block, spec.protect_last},
                    .page = PageWrap{block, sink_blocks, PageReduction::kMean}});
}

constexpr std::array<ParamInfo, 2> kParams = {{
    {"block", "auto", "1… (auto: 16, shrinks to half of B)"},
    {"sink_blocks", "auto", "0… (auto: 1 where B has room for it)"},
}};

}  // namespace

PolicyInfo paged_eviction_policy() {
  return {.name = "paged_eviction",
          .summary = "Drops whole pages of small value-to-key norm, one set per layer.",
          .paper = "PagedEviction, 2025, arXiv:2509.04377",
          .source = "runner/policies/paged_eviction.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .own_page = true,
          .make = make_paged_eviction};
}

}  // namespace kvscope
