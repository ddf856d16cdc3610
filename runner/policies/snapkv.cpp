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
// that holds B).
//
// Deviations: one set per KV head from the group's mean (the official code repeats KV heads to
// query heads); positions stay ascending. The zero padding of average pooling damps the first and
// last k/2 positions as the official code does.
#include "runner/policies/snapkv.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

#include "runner/policies/builtin.h"
#include "runner/policies/fitted_policy.h"
#include "runner/policies/params.h"
#include "runner/policies/protect.h"

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

class SnapKv final : public FittedPolicy {
 public:
  SnapKv(const PolicySpec& spec, int budget_tokens, const SnapKvOptions& options)
      : FittedPolicy(spec, budget_tokens, std::nullopt, /*one_set=*/false),
        budget_(budget_tokens),
        options_(options) {
    record("window", options.window);
  }

 protected:
  PromptNeed cut_need() const override {
    if (options_.window == 0) return {};  // a prompt of one token has no prefix to score
    return {.rows = PromptNeed::Rows::kLast, .last_rows = options_.window, .mean = true};
  }

  std::vector<KeptHead> cut(const PromptLayer& layer) const override {
    const std::size_t n = layer.prompt_tokens;
    const int group = layer.n_heads / layer.n_kv_heads;
    std::vector<std::int32_t> positions(n);
    for (std::size_t i = 0; i < n; ++i) positions[i] = static_cast<std::int32_t>(i);

    std::vector<KeptHead> heads(layer.n_kv_heads);
    for (int kv_head = 0; kv_head < layer.n_kv_heads; ++kv_head) {
      std::vector<float> scores(n, 0.0F);
      if (layer.prompt_tokens > budget_) {
        assert(layer.column_weights.size() == n * layer.n_heads);
        const auto weights = layer.column_weights.subspan(n * group * kv_head, n * group);
        scores = snapkv_scores(options_, weights, group, layer.prompt_tokens);
        scores.resize(n);
      }
      TopK kept =
          keep_protected_and_best<float>({.recent = options_.window}, positions, scores, budget_);
      heads[kv_head].positions = std::move(kept.slots);  // slot = position in a dense prompt
      heads[kv_head].nan_scores = kept.nan_scores;
    }
    return heads;
  }

 private:
  int budget_;
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
  return std::make_unique<SnapKv>(spec, budget_tokens, options);
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
