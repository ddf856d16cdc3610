// From hidden states to what a scored text needs: NLL of each token, its distance from the full
// cache, the likeliest next tokens.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runner/engine/layer_pass.h"

namespace kvscope {

// Hidden states of one arm's rows: row r belongs to token first_position + r; earlier rows are the
// reference's (the shared dense prompt).
struct HiddenRows {
  std::span<const float> x;  // [n_rows][d_model]
  int first_position = 0;
};

// Fills nll_nats, kl_full_nats, top1_agrees, top and error of each result, stretch by stretch.
class TokenScorer {
 public:
  // All must outlive the scorer. results: one an arm.
  TokenScorer(EngineContext& context, Forward& forward, const ScoreRequest& request,
              std::span<ScoreArmResult> results);

  // What the rows of tokens begin … end-1 predict. reference: [tokens from 0 on][d_model], empty if
  // no arm needs it (no compare_full and every arm has its own rows). False: stopped.
  bool score(int begin, int end, std::span<const float> reference, std::span<const HiddenRows> arms,
             const std::function<bool()>& stop);

 private:
  struct Logits {
    std::span<float> values;  // [n][n_vocab]
    std::vector<double> lse;  // [n]
    std::span<const float> row(int r, int n_vocab) const {
      return values.subspan(std::size_t(r) * n_vocab, n_vocab);
    }
  };

  void compute(Scratch& memory, std::span<const float> x, int n, Logits& logits);
  void record(ScoreArmResult& result, int first, int n, const Logits& logits) const;
  void compare(ScoreArmResult& result, int first, int n, bool is_reference);

  EngineContext& context_;
  Forward& forward_;
  const ScoreRequest& request_;
  std::span<ScoreArmResult> results_;
  int d_model_;
  int n_vocab_;
  Logits full_;
  Logits own_;
  std::vector<LogitPair> pairs_;
  std::vector<LogitComparison> comparisons_;
};

}  // namespace kvscope
