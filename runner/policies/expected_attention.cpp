// Expected Attention: what future queries, taken as Gaussian, will pay (Devoto et al., 2025,
// arXiv:2510.00636).
//
//   μ, Σ     = mean and covariance of the prompt's queries before RoPE, per query head, without the
//              first n_sink
//   R̄        = mean rotation over the next `horizon` positions; μ̄ = R̄μ, Σ̄ = R̄ΣR̄ᵀ
//   z_i      = k_i·μ̄/√d + k_iᵀΣ̄k_i/(2d)
//   score(i) = (mean over the group of softmax(z)_i + epsilon) · ‖v_i‖₂
//   keep     : the first n_sink tokens and the best others
//
// Needs     : queries before RoPE, keys and values. O(P·d²) a query head.
// State     : none after the prompt; of a streamed chunk its queries.
// Deviations: the newest token is protected (protect_last=false: KVPress' ExpectedAttention).
#include "runner/policies/expected_attention_score.h"

#include <algorithm>
#include <array>

#include "runner/policies/builtin.h"
#include "runner/policies/host_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

// A streamed prompt: the chunk's queries score everything resident.
class ChunkQueries final : public ScoreState {
 public:
  explicit ChunkQueries(const ExpectedAttentionOptions& options) : options_(options) {}

  std::unique_ptr<ScoreState> clone() const override {
    return std::make_unique<ChunkQueries>(*this);
  }
  void observe(const VisibleRow& row) override {
    if (row.positions.back() < options_.n_sink) return;
    n_heads_ = row.n_query_heads;
    rows_.insert(rows_.end(), row.queries.begin(), row.queries.end());
    inverse_frequency_.assign(row.inverse_frequency.begin(), row.inverse_frequency.end());
  }
  std::vector<float> scores(const Slots& slots) const override {
    const std::size_t n = slots.positions.size();
    const auto d = static_cast<std::size_t>(slots.reader->head_dim());
    std::vector<float> scores(n, 0.0F);
    if (rows_.empty()) return scores;
    const std::size_t n_rows = rows_.size() / (n_heads_ * d);
    std::vector<float> queries(rows_.size());  // [heads][rows][d]
    for (std::size_t r = 0; r < n_rows; ++r) {
      for (std::size_t h = 0; h < n_heads_; ++h) {
        std::copy_n(rows_.data() + (r * n_heads_ + h) * d, d,
                    queries.data() + (h * n_rows + r) * d);
      }
    }
    // Sinks are protected, and no part of the softmax.
    std::vector<int> others;
    std::int32_t newest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (slots.positions[i] >= options_.n_sink) others.push_back(static_cast<int>(i));
      newest = std::max(newest, slots.positions[i]);
    }
    if (others.empty()) return scores;
    std::vector<float> keys(others.size() * d);
    std::vector<float> values(others.size() * d);
    for (std::size_t i = 0; i < others.size(); ++i) {
      slots.reader->read_key(0, others[i], std::span(keys).subspan(i * d, d));
      slots.reader->read_value(0, others[i], std::span(values).subspan(i * d, d));
    }
    ExpectedAttentionOptions options = options_;
    options.n_sink = 0;  // the statistics left their queries out already
    const auto rotation = mean_rotation(inverse_frequency_, newest + 1, options.horizon);
    const auto expected = expected_attention_scores(
        options, rotation, queries, static_cast<int>(n_heads_), keys, values, static_cast<int>(d));
    for (std::size_t i = 0; i < others.size(); ++i) scores[others[i]] = expected[i];
    return scores;
  }
  void compact(std::span<const std::int32_t>) override {}
  void selected() override { rows_.clear(); }

 private:
  ExpectedAttentionOptions options_;
  std::size_t n_heads_ = 0;
  std::vector<float> rows_;  // [rows][n_heads][head_dim]
  std::vector<float> inverse_frequency_;
};

class ExpectedAttention final : public FittedPolicy {
 public:
  ExpectedAttention(const PolicySpec& spec, const Fitting& fitting,
                    const ExpectedAttentionOptions& options)
      : FittedPolicy(spec, fitting), options_(options) {
    record("n_sink", options.n_sink);
  }

 protected:
  PromptNeed cut_need() const override { return {.keys = true, .values = true, .queries = true}; }
  std::unique_ptr<ScoreState> make_score(UnitPlace) const override {
    return std::make_unique<ChunkQueries>(options_);
  }
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override {
    std::vector<PromptScores> units(layer.n_kv_heads);
    if (layer.prompt_tokens <= options_.n_sink) {
      for (PromptScores& unit : units) unit.scores.resize(layer.prompt_tokens);
      return units;
    }
    const std::size_t head = static_cast<std::size_t>(layer.prompt_tokens) * layer.head_dim;
    const std::size_t group = layer.n_heads / layer.n_kv_heads;
    const auto rotation =
        mean_rotation(layer.inverse_frequency, layer.prompt_tokens, options_.horizon);
    for (std::size_t h = 0; h < units.size(); ++h) {
      units[h].scores = expected_attention_scores(
          options_, rotation, layer.queries.subspan(h * group * head, group * head),
          static_cast<int>(group), layer.keys.subspan(h * head, head),
          layer.values.subspan(h * head, head), layer.head_dim);
    }
    return units;
  }

 private:
  ExpectedAttentionOptions options_;
};

std::unique_ptr<Policy> make_expected_attention(const PolicySpec& spec, const FitRequest& request,
                                                int budget_tokens) {
  ExpectedAttentionOptions options;
  options.horizon = int_param(spec, "horizon");
  options.use_covariance = spec.params.at("covariance") == "true";
  options.use_value_norm = spec.params.at("value_norm") == "true";
  options.epsilon = float_param(spec, "epsilon");
  const int most = std::min(budget_tokens - 1, request.length - 1);
  options.n_sink = fit_param(spec, request, "n_sink", 4, most, most, "the budget less one token");
  ScanRule rule = host_rule(budget_tokens, ScanRule::Scope::kHead, 0);
  return std::make_unique<ExpectedAttention>(
      spec,
      Fitting{.budget_tokens = budget_tokens,
              .prompt_tokens = request.length,
              .rule = rule,
              .protection = {.sinks = options.n_sink, .last = spec.protect_last}},
      options);
}

constexpr std::array<ParamInfo, 5> kParams = {{
    {"n_sink", "auto", "0… (auto: 4, shrinks to B - 1)"},
    {"horizon", "512", "1…"},
    {"covariance", "true", "true|false"},
    {"value_norm", "true", "true|false"},
    {"epsilon", "0", "float 0…"},
}};

}  // namespace

PolicyInfo expected_attention_policy() {
  return {.name = "expected_attention",
          .summary = "Keeps what queries of the coming positions are expected to attend to.",
          .paper = "Devoto et al., 2025, arXiv:2510.00636",
          .source = "runner/policies/expected_attention.cpp",
          .params = kParams,
          .has_in_stream_rule = false,
          .default_decode = DecodeMode::kGrow,
          .default_positions = PositionMode::kAbsolute,
          .make = make_expected_attention};
}

}  // namespace kvscope
