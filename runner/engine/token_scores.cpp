#include "runner/engine/token_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/engine/likeliest.h"

namespace kvscope {

namespace {

// 12.6 MB of logits for a vocabulary of 49,152; 128 and 256 rows were not faster.
constexpr int kRowsAtOnce = 64;

void prepare(ScoreArmResult& result, const ScoreRequest& request) {
  const std::size_t n = request.tokens.size();
  result.nll_nats.assign(n, std::numeric_limits<double>::quiet_NaN());
  if (request.compare_full) {
    result.kl_full_nats.assign(n, std::numeric_limits<float>::quiet_NaN());
    result.top1_agrees.assign(n, 0);
  }
  if (request.top > 0) result.top.resize(n);
}

}  // namespace

TokenScorer::TokenScorer(EngineContext& context, Forward& forward, const ScoreRequest& request,
                         std::span<ScoreArmResult> results)
    : context_(context),
      forward_(forward),
      request_(request),
      results_(results),
      d_model_(context.model.config.d_model),
      n_vocab_(context.model.config.n_vocab) {
  for (ScoreArmResult& result : results) prepare(result, request);
}

bool TokenScorer::score(int begin, int end, std::span<const float> reference,
                        std::span<const HiddenRows> arms, const std::function<bool()>& stop) {
  const int n_tokens = int(request_.tokens.size());
  const int reference_rows = int(reference.size() / d_model_);
  const bool after_last = request_.top > 0 || request_.compare_full;
  end = std::min(end, after_last ? n_tokens : n_tokens - 1);
  const auto is_reference = [&](const HiddenRows& arm, int first) {
    return first < arm.first_position || arm.x.data() == reference.data();
  };
  for (int first = std::max(begin, request_.first_scored - 1); first < end;) {
    if (stop && stop()) return false;
    int n = std::min(kRowsAtOnce, end - first);
    // Blocks do not straddle the end of a shared prompt.
    for (const HiddenRows& arm : arms) {
      if (first < arm.first_position) n = std::min(n, arm.first_position - first);
    }
    const bool needs_reference =
        request_.compare_full || std::any_of(arms.begin(), arms.end(), [&](const HiddenRows& arm) {
          return is_reference(arm, first);
        });
    if (needs_reference && first < reference_rows) {
      compute(context_.logits.full, reference.subspan(std::size_t(first) * d_model_), n, full_);
    }
    for (std::size_t i = 0; i < arms.size(); ++i) {
      const bool shared = is_reference(arms[i], first);
      if (!shared) {
        const auto row = std::size_t(first - arms[i].first_position);
        compute(context_.logits.own, arms[i].x.subspan(row * d_model_), n, own_);
      }
      record(results_[i], first, n, shared ? full_ : own_);
      if (request_.compare_full) compare(results_[i], first, n, shared);
    }
    first += n;
  }
  return true;
}

void TokenScorer::compute(Scratch& memory, std::span<const float> x, int n, Logits& logits) {
  logits.values = memory.floats(std::size_t(n) * n_vocab_);
  logits.lse.resize(n);
  forward_.logits(x.first(std::size_t(n) * d_model_), n, logits.values);
  context_.backend.log_sum_exp(logits.values, n, logits.lse);
}

void TokenScorer::record(ScoreArmResult& result, int first, int n, const Logits& logits) const {
  const int n_tokens = int(request_.tokens.size());
  std::vector<LogitPlace> next;
  for (int r = 0; r < n && first + r + 1 < n_tokens; ++r)
    next.push_back({r, request_.tokens[first + r + 1]});
  std::vector<float> next_logits(next.size());
  context_.backend.pick_logits(logits.values, n_vocab_, next, next_logits);
  if (request_.top > 0) context_.backend.sync();
  for (int r = 0; r < n; ++r) {
    const int t = first + r;
    const double lse = logits.lse[r];
    const std::span<const float> row = logits.row(r, n_vocab_);
    if (!std::isfinite(lse)) {
      if (result.error.empty()) result.error = "non-finite logits after token " + std::to_string(t);
      continue;
    }
    if (t + 1 < n_tokens) result.nll_nats[t + 1] = lse - double(next_logits[r]);
    if (request_.top == 0) continue;
    for (const std::int32_t id : likeliest_tokens(row, request_.top)) {
      result.top[t].emplace_back(id, float(double(row[id]) - lse));
    }
  }
}

void TokenScorer::compare(ScoreArmResult& result, int first, int n, bool is_reference) {
  comparisons_.assign(n, LogitComparison{});
  if (!is_reference) {
    pairs_.clear();
    for (int r = 0; r < n; ++r) {
      pairs_.push_back({full_.row(r, n_vocab_), full_.lse[r], own_.row(r, n_vocab_), own_.lse[r]});
    }
    context_.backend.compare_logits(pairs_, comparisons_);
  }
  for (int r = 0; r < n; ++r) {
    result.kl_full_nats[first + r] = float(comparisons_[r].kl_full_to_arm_nats);
    result.top1_agrees[first + r] = comparisons_[r].top1_agrees ? 1 : 0;
  }
}

}  // namespace kvscope
