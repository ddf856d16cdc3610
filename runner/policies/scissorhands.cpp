// Scissorhands: tokens that kept being unimportant leave (Liu et al., NeurIPS 2023,
// arXiv:2305.17118; no official code was found, policies.md 2.7).
//
//   low_t(i) = number of the last `history` rows in which a_u(i) < 1 / |V_u|
//   keep     : whenever more than B are visible, drop max(drop, |V| - B) of the largest counts
//              older than the `recent` newest; of equals the older
//
// where a_u(i) is the mean over the group's query heads, softmax over what was visible.
//
// Needs     : the attention probabilities of the last `history` rows.
// State     : one bit per row of the history, cached token and KV head, in words of 64.
// Deviations: the cache refills without scoring after a drop; normalise=true divides by the rows
// that saw the token.
#include <array>
#include <bit>

#include "runner/policies/builtin.h"
#include "runner/policies/host_policy.h"
#include "runner/policies/params.h"
#include "runner/policies/rule_state.h"

namespace kvscope {
namespace {

class LowCounts final : public ScoreState {
 public:
  LowCounts(int history, bool normalise)
      : history_(history), words_((history + 63) / 64), normalise_(normalise) {}

  std::unique_ptr<ScoreState> clone() const override { return std::make_unique<LowCounts>(*this); }

  void observe(const VisibleRow& row) override {
    const std::size_t n = row.positions.size();
    const std::vector<float> a = mean_over_heads(row.probabilities, row.n_query_heads, n);
    // "≥ 1/n" must not flip on rounding where attention is exactly uniform (policies.md 1.4).
    const float bar = 1.0F / static_cast<float>(n) * (1.0F - 1e-6F);
    bits_.resize(n * words_);
    if (normalise_) rows_seen_.resize(n);
    const int at = row_ % history_;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t& word = bits_[i * words_ + at / 64];
      const std::uint64_t bit = std::uint64_t{1} << (at % 64);
      word = a[i] >= bar ? word & ~bit : word | bit;
      if (normalise_) rows_seen_[i] = std::min(rows_seen_[i] + 1, history_);
    }
    ++row_;
  }

  std::vector<float> scores(const Slots& slots) const override {
    std::vector<float> scores;
    for (std::size_t i = 0; i < slots.positions.size(); ++i) {
      int low = 0;
      for (int w = 0; w < words_; ++w) low += std::popcount(bits_[i * words_ + w]);
      const auto count = static_cast<float>(low);
      scores.push_back(normalise_ ? -count / static_cast<float>(rows_seen_[i]) : -count);
    }
    return scores;
  }

  void compact(std::span<const std::int32_t> old_slot_of) override {
    std::vector<std::uint64_t> bits;
    std::vector<int> rows_seen;
    for (const std::int32_t slot : old_slot_of) {
      const auto first = bits_.begin() + static_cast<std::ptrdiff_t>(slot) * words_;
      bits.insert(bits.end(), first, first + words_);
      if (normalise_) rows_seen.push_back(rows_seen_[slot]);
    }
    bits_ = std::move(bits);
    rows_seen_ = std::move(rows_seen);
  }

  std::int64_t state_bytes() const override {
    return static_cast<std::int64_t>(bits_.size() * sizeof(std::uint64_t) +
                                     rows_seen_.size() * sizeof(int));
  }
  static int slot_bytes(int history, bool normalise) {
    return (history + 63) / 64 * 8 + (normalise ? static_cast<int>(sizeof(int)) : 0);
  }

 private:
  int history_;
  int words_;
  bool normalise_;
  int row_ = 0;                      // rows observed
  std::vector<std::uint64_t> bits_;  // [n_slots][words] ring: bit u % history is row u's
  std::vector<int> rows_seen_;       // [n_slots] at most history; normalise only
};

class Scissorhands final : public FittedPolicy {
 public:
  Scissorhands(const PolicySpec& spec, const Fitting& fitting, int history, bool normalise)
      : FittedPolicy(spec, fitting), history_(history), normalise_(normalise) {
    record("recent", fitting.protection.recent);
    record("drop", fitting.drop_tokens);
  }

 protected:
  PromptNeed cut_need() const override { return {.replay_rows = history_}; }
  std::unique_ptr<ScoreState> make_score(UnitPlace) const override {
    return std::make_unique<LowCounts>(history_, normalise_);
  }
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override {
    std::vector<PromptScores> units(layer.n_kv_heads);
    std::vector<ScoreState*> states;
    for (PromptScores& unit : units) {
      unit.state = make_score({});
      states.push_back(unit.state.get());
    }
    replay_rows(layer, layer.prompt_tokens - std::min(history_, layer.prompt_tokens),
                layer.n_heads / layer.n_kv_heads, states);
    const std::vector<std::int32_t> positions = positions_up_to(layer.prompt_tokens);
    for (PromptScores& unit : units) unit.scores = unit.state->scores(positions);
    return units;
  }

 private:
  int history_;
  bool normalise_;
};

std::unique_ptr<Policy> make_scissorhands(const PolicySpec& spec, const FitRequest& request,
                                          int budget_tokens) {
  const int history = int_param(spec, "history");
  const bool normalise = spec.params.at("normalise") == "true";
  const int recent = fit_param(spec, request, "recent", 10, std::max(1, budget_tokens / 2),
                               budget_tokens, "the budget");
  const int drop = fit_param(spec, request, "drop", std::max(1, budget_tokens / 2),
                             std::max(1, budget_tokens - recent), std::max(1, budget_tokens - 1),
                             "the budget less one token");
  return std::make_unique<Scissorhands>(
      spec,
      Fitting{.budget_tokens = budget_tokens,
              .prompt_tokens = request.length,
              .rule = host_rule(budget_tokens, ScanRule::Scope::kHead,
                                LowCounts::slot_bytes(history, normalise)),
              .protection = {.recent = recent, .last = spec.protect_last},
              .drop_tokens = drop},
      history, normalise);
}

constexpr std::array<ParamInfo, 4> kParams = {{
    {"history", "400", "1…"},
    {"recent", "auto", "0… (auto: 10, shrinks to half of B)"},
    {"drop", "auto", "1… (auto: half of B)"},
    {"normalise", "false", "true|false"},
}};

}  // namespace

PolicyInfo scissorhands_policy() {
  return {.name = "scissorhands",
          .summary = "Drops tokens that many recent rows found unimportant, several at once.",
          .paper = "Liu et al., NeurIPS 2023, arXiv:2305.17118",
          .source = "runner/policies/scissorhands.cpp",
          .params = kParams,
          .has_in_stream_rule = true,
          .default_decode = DecodeMode::kSelf,
          .default_positions = PositionMode::kAbsolute,
          .make = make_scissorhands};
}

}  // namespace kvscope
