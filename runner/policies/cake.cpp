// CAKE: layers get what their attention's entropy and variance ask for (Qin et al., ICLR 2025,
// arXiv:2503.12491).
//
//   of the last w prompt rows, prefix columns only, A[h,j,i]:
//   H = -Σ A ln A, V = Σ var_j A; preference of a layer = H^(1/tau1) · V^(1/tau2)
//   budget of a layer = w + (B - w)·L · preference / Σ preferences
//   score(i) = pool_k(mean_j A + gamma · var_j A), mean over the group
//   keep     : the last w tokens and the best others; while layers are filled, earlier ones are
//              cut again as the total is shared by more
//   decode   : each row scores the prefix by itself alone, pooled; budget and newest w stay
//
// Needs     : the attention probabilities of the last w prompt rows; in decoding of each row.
// State     : the current row's probabilities (transient).
// Deviations: integers by largest remainder (the official truncation shifts a slot), neighbours in
// order of position, equal preferences give equal budgets. tau default to 1 (the paper tunes them
// per model and budget). As a part, +cake gives another score these layer budgets.
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/builtin_parts.h"
#include "runner/policies/cake_cascade.h"
#include "runner/policies/cake_scores.h"
#include "runner/policies/host_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

class RowScore final : public ScoreState {
 public:
  RowScore(const CakeOptions& options, int window) : options_(options), window_(window) {}

  std::unique_ptr<ScoreState> clone() const override { return std::make_unique<RowScore>(*this); }
  void observe(const VisibleRow& row) override {
    probabilities_.assign(row.probabilities.begin(), row.probabilities.end());
    n_heads_ = row.n_query_heads;
  }
  std::vector<float> scores(const Slots& slots) const override {
    if (n_heads_ == 0) return std::vector<float>(slots.positions.size(), 0.0F);
    return cake_decode_scores(options_, probabilities_, slots.positions, n_heads_, window_);
  }
  void compact(std::span<const std::int32_t>) override { n_heads_ = 0; }

 private:
  CakeOptions options_;
  int window_;
  std::vector<float> probabilities_;  // [n_heads][n_slots] of the newest row
  int n_heads_ = 0;
};

class Cake final : public FittedPolicy {
 public:
  Cake(const PolicySpec& spec, const Fitting& fitting, const CakeOptions& options)
      : FittedPolicy(spec, fitting), options_(options), window_(fitting.protection.recent) {
    record("window", window_);
  }

 protected:
  PromptNeed cut_need() const override { return {.replay_rows = window_}; }
  std::unique_ptr<ScoreState> make_score(UnitPlace) const override {
    return std::make_unique<RowScore>(options_, window_);
  }
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override {
    std::vector<PromptScores> units(layer.n_kv_heads);
    std::vector<CakeWindow> windows;  // a prompt of one token has no prefix to score
    if (window_ > 0) windows = cake_windows(layer, window_);
    for (int h = 0; h < layer.n_kv_heads; ++h) {
      if (window_ > 0) units[h].scores = windows[h].indicator(options_);
      units[h].scores.resize(layer.prompt_tokens);
      units[h].state = make_score({});
    }
    return units;
  }

 private:
  CakeOptions options_;
  int window_;
};

int fit_window(const PolicySpec& spec, const FitRequest& request, int budget_tokens) {
  const int prefix = request.length - 1;
  return fit_param(spec, request, "window", 32, std::min(std::max(1, budget_tokens / 2), prefix),
                   std::min(budget_tokens, prefix), "the budget, and less than the prompt");
}

std::unique_ptr<Policy> make_cake(const PolicySpec& spec, const FitRequest& request,
                                  int budget_tokens) {
  CakeOptions options;
  options.gamma = float_param(spec, "gamma");
  options.kernel = int_param(spec, "kernel");
  return std::make_unique<Cake>(
      spec,
      Fitting{.budget_tokens = budget_tokens,
              .prompt_tokens = request.length,
              .rule = host_rule(budget_tokens, ScanRule::Scope::kHead, 0),
              .protection = {.recent = fit_window(spec, request, budget_tokens)}},
      options);
}

constexpr std::array<ParamInfo, 5> kParams = {{
    {"window", "auto", "1… (auto: 32, shrinks to half of B and below the prompt)"},
    {"kernel", "5", "odd 1…"},
    {"gamma", "200", "float 0…"},
    {"tau1", "1", "float 0.01…100"},
    {"tau2", "1", "float 0.01…100"},
}};

constexpr std::array<ParamInfo, 3> kPartParams = {{
    {"window", "32", "2… (newest prompt rows that the layers' preferences come from)"},
    {"tau1", "1", "float 0.01…100"},
    {"tau2", "1", "float 0.01…100"},
}};

void apply(const PartSpec& part, Composition& composition) {
  composition.cake =
      CakeBudgets{float_param(part, "tau1"), float_param(part, "tau2"), int_param(part, "window")};
}

}  // namespace

CakeBudgets cake_budgets(const PolicySpec& spec) {
  return {float_param(spec, "tau1"), float_param(spec, "tau2")};
}

PolicyInfo cake_policy() {
  return {.name = "cake",
          .summary = "Layers share the budget by entropy and variance; a pooled score decides.",
          .paper = "Qin et al., ICLR 2025, arXiv:2503.12491",
          .source = "runner/policies/cake.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .needs_prompt = true,
          .streams_prompt = false,
          .own_part = "cake",
          .make = make_cake};
}

PartInfo cake_part() {
  return {.name = "cake",
          .summary = "CAKE's layer budgets for another score.",
          .paper = "Qin et al., ICLR 2025, arXiv:2503.12491",
          .source = "runner/policies/cake.cpp",
          .params = kPartParams,
          .kind = PartInfo::Kind::kLayerBudgets,
          .alone = "",
          .apply = apply};
}

}  // namespace kvscope
