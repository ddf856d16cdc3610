// SnapKV: the end of the prompt votes (Li et al., NeurIPS 2024, arXiv:2404.14469).
//
//   raw_h(i) = 1/w Σ_{u = P-w}^{P-1} a_{h,u}(i)   for i < P - w
//
// where the softmax of a_{h,u} runs over the whole causal row.
//
//   score(i) = pool_k(reduce over the group's heads of raw_h)(i)
//
//   keep     : the last w prompt tokens and the B - w others with the largest score
//
// Needs: the attention probabilities of the last w prompt rows.
//
// State: none; it acts once, at the prompt's end (decode=grow, as the paper; or a second policy
// that holds B). In a streamed prompt the last w rows of each chunk select.
//
// Deviations: one set per KV head from the group's mean (the official code repeats KV heads to
// query heads); positions stay ascending. The zero padding of average pooling damps the first and
// last k/2 positions as the official code does.
#include "runner/policies/snapkv.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <deque>
#include <limits>

#include "runner/policies/builtin.h"
#include "runner/policies/host_policy.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr int kDefaultWindow = 32;

// scores: [n_heads][n] → [n]
std::vector<float> reduce_heads(SnapKvOptions::Gqa gqa,
                                const std::vector<std::vector<float>>& scores) {
  std::vector<float> reduced = scores.front();
  for (std::size_t h = 1; h < scores.size(); ++h) {
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      const float value = scores[h][i];
      // A NaN must not hide behind a maximum.
      const bool takes = value > reduced[i] || value != value;
      if (gqa != SnapKvOptions::Gqa::kMax) {
        reduced[i] += value;
      } else if (takes) {
        reduced[i] = value;
      }
    }
  }
  if (gqa == SnapKvOptions::Gqa::kMean) {
    const float scale = 1.0F / static_cast<float>(scores.size());
    for (float& value : reduced) value *= scale;
  }
  return reduced;
}

// A streamed prompt: the last w rows of the chunk score everything resident.
class ChunkRows final : public ScoreState {
 public:
  explicit ChunkRows(const SnapKvOptions& options) : options_(options) {}

  std::unique_ptr<ScoreState> clone() const override { return std::make_unique<ChunkRows>(*this); }
  void observe(const VisibleRow& row) override {
    n_heads_ = row.n_query_heads;
    rows_.emplace_back(row.probabilities.begin(), row.probabilities.end());
    if (rows_.size() > static_cast<std::size_t>(options_.window)) rows_.pop_front();
  }
  std::vector<float> scores(const Slots& slots) const override {
    const std::size_t n = slots.positions.size();
    std::vector<float> scores(n, 0.0F);
    if (rows_.empty() || n <= static_cast<std::size_t>(options_.window)) return scores;
    // Neighbours are neighbours in position, wherever their slots lie.
    std::vector<std::int32_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int32_t>(i);
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return slots.positions[a] < slots.positions[b];
    });
    std::vector<float> weights(n_heads_ * n, 0.0F);  // [heads][n] by position
    const float share = 1.0F / static_cast<float>(rows_.size());
    for (const std::vector<float>& row : rows_) {
      const std::size_t seen = row.size() / n_heads_;
      for (std::size_t h = 0; h < n_heads_; ++h) {
        for (std::size_t i = 0; i < n; ++i) {
          const auto slot = static_cast<std::size_t>(order[i]);
          if (slot < seen) weights[h * n + i] += share * row[h * seen + slot];
        }
      }
    }
    const std::vector<float> pooled =
        snapkv_scores(options_, weights, static_cast<int>(n_heads_), static_cast<int>(n));
    for (std::size_t i = 0; i < pooled.size(); ++i) scores[order[i]] = pooled[i];
    return scores;
  }
  void compact(std::span<const std::int32_t>) override {}
  void selected() override { rows_.clear(); }

 private:
  SnapKvOptions options_;
  std::deque<std::vector<float>> rows_;  // [n_heads][slots then visible] of the newest w rows
  std::size_t n_heads_ = 0;
};

class SnapKv final : public FittedPolicy {
 public:
  SnapKv(const PolicySpec& spec, const Fitting& fitting, const SnapKvOptions& options)
      : FittedPolicy(spec, fitting), options_(options) {
    record("window", options.window);
  }

 protected:
  PromptNeed cut_need() const override {
    if (options_.window == 0) return {};  // a prompt of one token has no prefix to score
    return {.rows = PromptNeed::Rows::kLast, .last_rows = options_.window, .mean = true};
  }
  std::unique_ptr<ScoreState> make_score(UnitPlace) const override {
    return std::make_unique<ChunkRows>(options_);
  }
  std::vector<PromptScores> prompt_scores(const PromptLayer& layer) const override {
    const std::size_t n = layer.prompt_tokens;
    const int group = layer.n_heads / layer.n_kv_heads;
    std::vector<PromptScores> units(layer.n_kv_heads);
    for (int h = 0; h < layer.n_kv_heads; ++h) {
      if (layer.prompt_tokens > fitting().budget_tokens) {
        assert(layer.column_weights.size() == n * layer.n_heads);
        const auto weights = layer.column_weights.subspan(n * group * h, n * group);
        units[h].scores = snapkv_scores(options_, weights, group, layer.prompt_tokens);
      }
      units[h].scores.resize(n);
    }
    return units;
  }

 private:
  SnapKvOptions options_;
};

std::unique_ptr<Policy> make_snapkv(const PolicySpec& spec, const FitRequest& request,
                                    int budget_tokens) {
  const std::string& gqa = spec.params.at("gqa");
  SnapKvOptions options;
  options.pool =
      spec.params.at("pool") == "avg" ? SnapKvOptions::Pool::kAvg : SnapKvOptions::Pool::kMax;
  options.gqa = gqa == "mean"  ? SnapKvOptions::Gqa::kMean
                : gqa == "max" ? SnapKvOptions::Gqa::kMax
                               : SnapKvOptions::Gqa::kSum;
  options.kernel = int_param(spec, "kernel");
  options.pool_first = spec.params.at("order") == "pool_agg";
  options.valid_edge = spec.params.at("pool_edge") == "valid";
  const int prefix = request.length - 1;
  options.window = fit_param(
      spec, request, "window", kDefaultWindow, std::min(std::max(1, budget_tokens / 2), prefix),
      std::min(budget_tokens, prefix), "the budget, and less than the prompt");
  return std::make_unique<SnapKv>(
      spec,
      Fitting{.budget_tokens = budget_tokens,
              .prompt_tokens = request.length,
              .rule = host_rule(budget_tokens, ScanRule::Scope::kHead, 0),
              .protection = {.recent = options.window}},
      options);
}

constexpr std::array<ParamInfo, 6> kParams = {{
    {"window", "auto", "1… (auto: 32, shrinks to half of B and below the prompt)"},
    {"kernel", "5", "odd 1…"},
    {"pool", "avg", "avg|max"},
    {"gqa", "mean", "mean|max|sum"},
    {"order", "agg_pool", "agg_pool|pool_agg"},
    {"pool_edge", "zero", "zero|valid", "pool=avg"},
}};

}  // namespace

std::vector<float> pool_scores(const SnapKvOptions& options, std::span<const float> scores) {
  const auto n = static_cast<std::ptrdiff_t>(scores.size());
  const std::ptrdiff_t reach = options.kernel / 2;
  std::vector<float> pooled(scores.size());
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const std::ptrdiff_t first = std::max<std::ptrdiff_t>(0, i - reach);
    const std::ptrdiff_t last = std::min(n - 1, i + reach);
    if (options.pool == SnapKvOptions::Pool::kAvg) {
      float sum = 0.0F;
      for (std::ptrdiff_t j = first; j <= last; ++j) sum += scores[j];
      const std::ptrdiff_t counted = options.valid_edge ? last - first + 1 : options.kernel;
      pooled[i] = sum / static_cast<float>(counted);
    } else {
      float best = -std::numeric_limits<float>::infinity();
      for (std::ptrdiff_t j = first; j <= last; ++j) {
        if (scores[j] > best || scores[j] != scores[j]) best = scores[j];
      }
      pooled[i] = best;
    }
  }
  return pooled;
}

std::vector<float> snapkv_scores(const SnapKvOptions& options, std::span<const float> weights,
                                 int n_heads, int prompt_tokens) {
  const std::size_t prefix = prompt_tokens - options.window;
  std::vector<std::vector<float>> by_head;
  for (int h = 0; h < n_heads; ++h) {
    const auto row = weights.subspan(static_cast<std::size_t>(h) * prompt_tokens, prefix);
    by_head.push_back(options.pool_first ? pool_scores(options, row)
                                         : std::vector<float>(row.begin(), row.end()));
  }
  std::vector<float> reduced = reduce_heads(options.gqa, by_head);
  return options.pool_first ? reduced : pool_scores(options, reduced);
}

PolicyInfo snapkv_policy() {
  return {.name = "snapkv",
          .summary = "Keeps what the last rows of the prompt attend to, pooled over neighbours.",
          .paper = "Li et al., NeurIPS 2024, arXiv:2404.14469",
          .source = "runner/policies/snapkv.cpp",
          .params = kParams,
          .has_in_stream_rule = false,
          .default_decode = DecodeMode::kGrow,
          .default_positions = PositionMode::kAbsolute,
          .make = make_snapkv};
}

}  // namespace kvscope
