#include "runner/policies/cake_cascade.h"

#include <utility>

#include "runner/policies/fitted_policy.h"

namespace kvscope {
namespace {

class CakeCascade final : public PromptCascade {
 public:
  CakeCascade(const FittedPolicy& policy, int budget_tokens, bool at_end)
      : policy_(policy), budget_(budget_tokens), at_end_(at_end) {
    const CakeBudgets& taus = *policy.composition().cake;
    options_.tau1 = taus.tau1;
    options_.tau2 = taus.tau2;
  }

  std::vector<KeptHead> cut(const PromptLayer& layer) override {
    const int window = std::min(policy_.protected_tokens(), layer.prompt_tokens);
    double entropy_nats = 0.0;
    double variance = 0.0;
    const int rows = policy_.cake_window();
    for (const CakeWindow& head :
         rows > 0 ? cake_windows(layer, rows) : std::vector<CakeWindow>()) {
      entropy_nats += head.entropy_nats();
      variance += head.variance();
    }
    preferences_.push_back(cake_preference(options_, entropy_nats, variance));
    layers_.push_back({layer.layer,
                       layer.n_layers,
                       layer.n_heads,
                       layer.n_kv_heads,
                       layer.prompt_tokens,
                       {},
                       layer.head_dim});
    scores_.push_back(policy_.layer_scores(layer));
    const bool fits = layer.prompt_tokens <= budget_;  // then it fills up to the budget later
    std::vector<int> budgets(preferences_.size(), fits ? budget_ : layer.prompt_tokens);
    if (!fits && (!at_end_ || layer.layer + 1 == layer.n_layers)) {
      budgets =
          cake_prefix_budgets(preferences_, layer.n_layers, budget_, window, layer.prompt_tokens);
      for (int& budget : budgets) budget += window;
    }
    for (std::size_t l = 0; l + 1 < budgets.size(); ++l) {
      // Largest remainder may raise a layer later; what left cannot come back.
      if (budgets[l] >= budgets_[l]) continue;
      recuts_.push_back(
          {static_cast<int>(l), policy_.keep_best(budgets[l], layers_[l], scores_[l])});
      budgets_[l] = budgets[l];
    }
    budgets_.push_back(budgets.back());
    return policy_.keep_best(budgets.back(), layers_.back(), scores_.back());
  }

  std::vector<Recut> take_recuts() override { return std::exchange(recuts_, {}); }

 private:
  const FittedPolicy& policy_;
  int budget_;
  bool at_end_;
  CakeOptions options_;
  // Of the layers so far, whole prompts: working memory of the prefill that no ledger counts, freed
  // with the prompt. The cache itself holds what the cascade leaves.
  std::vector<PromptLayer> layers_;  // shapes alone
  std::vector<std::vector<PromptScores>> scores_;
  std::vector<double> preferences_;
  std::vector<int> budgets_;
  std::vector<Recut> recuts_;
};

}  // namespace

std::vector<CakeWindow> cake_windows(const PromptLayer& layer, int window) {
  const int prefix = layer.prompt_tokens - window;
  const int group = layer.n_heads / layer.n_kv_heads;
  std::vector<CakeWindow> windows(layer.n_kv_heads, CakeWindow(group, prefix));
  layer.rows->for_each(prefix, [&](int, std::span<const float> all, int stride) {
    for (int head = 0; head < layer.n_heads; ++head) {
      windows[head / group].add_row(head % group,
                                    all.subspan(static_cast<std::size_t>(head) * stride, prefix));
    }
  });
  return windows;
}

std::unique_ptr<PromptCascade> make_cake_cascade(const FittedPolicy& policy, int budget_tokens,
                                                 bool at_end) {
  return std::make_unique<CakeCascade>(policy, budget_tokens, at_end);
}

}  // namespace kvscope
