// KeyDiff: keys unlike the others stay (Park et al., 2025, arXiv:2504.15364).
//
//   μ        = mean over the resident tokens of k_j / ‖k_j‖
//   score(i) = -cos(k_i, μ), keys as stored (after RoPE)
//   keep     : the B tokens of largest score
//
// Needs     : keys of every resident token at each selection, O(n·d).
// State     : none.
// Deviations: the newest token is protected (protect_last=false: KVPress' KeyDiff).
#include <algorithm>

#include "runner/policies/builtin.h"
#include "runner/policies/host_policy.h"
#include "runner/policies/key_scores.h"

namespace kvscope {
namespace {

class KeyDiffScore final : public ScoreState {
 public:
  std::unique_ptr<ScoreState> clone() const override {
    return std::make_unique<KeyDiffScore>(*this);
  }
  void observe(const VisibleRow&) override {}
  std::vector<float> scores(const Slots& slots) const override {
    const auto d = static_cast<std::size_t>(slots.reader->head_dim());
    const std::size_t n = slots.positions.size();
    // In order of position: the anchor's sum must not depend on where slots lie.
    std::vector<std::int32_t> order = positions_up_to(static_cast<int>(n));
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return slots.positions[a] < slots.positions[b];
    });
    std::vector<float> keys(n * d);
    for (std::size_t i = 0; i < n; ++i)
      slots.reader->read_key(0, order[i], std::span(keys).subspan(i * d, d));
    const std::vector<float> by_age = keydiff_scores(keys, static_cast<int>(d));
    std::vector<float> scores(n);
    for (std::size_t i = 0; i < n; ++i) scores[order[i]] = by_age[i];
    return scores;
  }
  void compact(std::span<const std::int32_t>) override {}
};

class KeyDiff final : public FittedPolicy {
 public:
  using FittedPolicy::FittedPolicy;

 protected:
  PromptNeed cut_need() const override { return {.keys = true}; }
  std::unique_ptr<ScoreState> make_score(UnitPlace) const override {
    return std::make_unique<KeyDiffScore>();
  }
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override {
    std::vector<PromptScores> units(layer.n_kv_heads);
    const std::size_t head = static_cast<std::size_t>(layer.prompt_tokens) * layer.head_dim;
    for (int h = 0; h < layer.n_kv_heads; ++h) {
      units[h].scores = keydiff_scores(layer.keys.subspan(h * head, head), layer.head_dim);
      units[h].state = std::make_unique<KeyDiffScore>();
    }
    return units;
  }
};

std::unique_ptr<Policy> make_keydiff(const PolicySpec& spec, const FitRequest& request,
                                     int budget_tokens) {
  return std::make_unique<KeyDiff>(
      spec, Fitting{.budget_tokens = budget_tokens,
                    .prompt_tokens = request.length,
                    .rule = host_rule(budget_tokens, ScanRule::Scope::kHead, 0),
                    .protection = {.last = spec.protect_last}});
}

}  // namespace

PolicyInfo keydiff_policy() {
  return {.name = "keydiff",
          .summary = "Keeps the tokens whose keys point away from the mean key.",
          .paper = "Park et al., 2025, arXiv:2504.15364",
          .source = "runner/policies/keydiff.cpp",
          .params = {},
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_keydiff};
}

}  // namespace kvscope
