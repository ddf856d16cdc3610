#include "runner/engine/token_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runner/engine/logit_divergence.h"

namespace kvscope {

namespace {

constexpr int kRowsAtOnce = 64;  // 12.6 MB of logits for a vocabulary of 49,152

struct LogitBlock {
  std::vector<float> logits;  // [n][n_vocab]
  std::vector<double> lse;    // [n]

  void compute(Forward& forward, Backend& backend, std::span<const float> x, int n, int d_model,
               int n_vocab) {
    logits.resize(std::size_t(n) * n_vocab);
    lse.resize(n);
    forward.logits(x.first(std::size_t(n) * d_model), n, logits);
    backend.log_sum_exp(logits, n, lse);
  }
  std::span<const float> row(int r, int n_vocab) const {
    return std::span(logits).subspan(std::size_t(r) * n_vocab, n_vocab);
  }
};

std::vector<std::pair<std::int32_t, float>> likeliest(std::span<const float> logits, double lse,
                                                      int n) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  n = std::min<int>(n, int(ids.size()));
  std::partial_sort(ids.begin(), ids.begin() + n, ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  std::vector<std::pair<std::int32_t, float>> top;
  for (int i = 0; i < n; ++i) top.emplace_back(ids[i], float(double(logits[ids[i]]) - lse));
  return top;
}

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

bool score_rows(Forward& forward, Backend& backend, int d_model, int n_vocab,
                const ScoreRequest& request, std::span<const float> reference,
                std::span<const HiddenRows> arms, std::span<ScoreArmResult> results,
                const std::function<bool()>& stop) {
  const int n_tokens = int(request.tokens.size());
  const int reference_rows = int(reference.size() / d_model);
  const bool after_last = request.top > 0 || request.compare_full;
  const int end = after_last ? n_tokens : n_tokens - 1;
  for (ScoreArmResult& result : results) prepare(result, request);
  LogitBlock full;
  LogitBlock own;

  const auto record = [&](ScoreArmResult& result, int t, std::span<const float> logits,
                          double lse) {
    if (!std::isfinite(lse)) {
      if (result.error.empty()) result.error = "non-finite logits after token " + std::to_string(t);
      return;
    }
    if (t + 1 < n_tokens) result.nll_nats[t + 1] = lse - double(logits[request.tokens[t + 1]]);
    if (request.top > 0) result.top[t] = likeliest(logits, lse, request.top);
  };

  for (int first = std::max(0, request.first_scored - 1); first < end;) {
    if (stop && stop()) return false;
    int n = std::min(kRowsAtOnce, end - first);
    // Blocks do not straddle the end of a shared prompt.
    for (const HiddenRows& arm : arms) {
      if (first < arm.first_position) n = std::min(n, arm.first_position - first);
    }
    const bool needs_reference =
        request.compare_full || std::any_of(arms.begin(), arms.end(), [&](const HiddenRows& arm) {
          return first < arm.first_position || arm.x.data() == reference.data();
        });
    if (needs_reference && first < reference_rows) {
      full.compute(forward, backend, reference.subspan(std::size_t(first) * d_model), n, d_model,
                   n_vocab);
    }
    for (std::size_t i = 0; i < arms.size(); ++i) {
      const bool is_reference =
          first < arms[i].first_position || arms[i].x.data() == reference.data();
      if (!is_reference) {
        own.compute(forward, backend,
                    arms[i].x.subspan(std::size_t(first - arms[i].first_position) * d_model), n,
                    d_model, n_vocab);
      }
      const LogitBlock& block = is_reference ? full : own;
      for (int r = 0; r < n; ++r) {
        const int t = first + r;
        record(results[i], t, block.row(r, n_vocab), block.lse[r]);
        if (!request.compare_full) continue;
        const LogitComparison comparison = is_reference
                                               ? LogitComparison{}
                                               : compare_logits(full.row(r, n_vocab), full.lse[r],
                                                                own.row(r, n_vocab), own.lse[r]);
        results[i].kl_full_nats[t] = float(comparison.kl_full_to_arm_nats);
        results[i].top1_agrees[t] = comparison.top1_agrees ? 1 : 0;
      }
    }
    first += n;
  }
  return true;
}

}  // namespace kvscope
