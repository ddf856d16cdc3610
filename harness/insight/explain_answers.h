// Why did an arm answer as it did? Which evicted tokens it would have looked at, and what putting
// them back does: executed, beside random tokens as a control.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/sample.h"
#include "harness/insight/missed_tokens.h"
#include "harness/plan/arms.h"
#include "harness/tasks/task.h"
#include "runner/engine/engine.h"
#include "runner/policies/restoration.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct ExplainOptions {
  // Tokens to restore; 0: as many as the evidence has, or kTopTokens where it is unknown.
  int top = 0;
  int n_controls = 3;      // draws of as many random evicted tokens
  std::uint64_t seed = 1;  // of the draws
  Restoration::Room room = Restoration::Room::kBeside;
  static constexpr int kTopTokens = 16;
};

struct ExplainedAnswer {
  std::vector<std::int32_t> ids;
  std::string text;
  bool is_right = false;
  double gold_nll_nats = 0.0;  // mean; NaN without a gold answer
  std::int64_t kv_bytes = 0;   // steady: pages and metadata
};

// One executed restoration.
struct Trial {
  std::string what;  // local | paired: the heaviest missed tokens of a frame; evidence; random
  std::uint64_t seed = 0;               // of random
  std::vector<std::int32_t> positions;  // ascending
  int n_evidence = 0;                   // of them
  ExplainedAnswer answer;
  bool is_full_answer = false;  // the same ids as full's
  std::string error = {};       // not empty: why it could not be
};

struct TopTokens {
  Frame frame = Frame::kLocal;
  std::vector<MissedToken> tokens;  // heaviest first
  int n_evidence = 0;               // of them
};

// Share of the evidence that is in the cache, mean over KV heads.
struct EvidenceSurvival {
  double after_cut = 0.0;  // of all layers
  double at_end = 0.0;
  std::vector<double> by_layer_after_cut;
  std::vector<double> by_layer_at_end;
};

struct AnswerReport {
  std::string sample_key;
  std::string gold;
  std::string error;  // not empty: full or the arm could not run; the rest is void
  ExplainedAnswer full;
  ExplainedAnswer arm;
  int prompt_tokens = 0;  // that the policy selected from
  int fed_tokens = 0;     // after it, before the first answer token
  int divergence = -1;    // index of the first answer token that differs; -1: none does
  // [answer tokens of full], rows forced along full's answer.
  std::vector<float> kl_nats;
  std::vector<float> delta_nll_nats;  // of full's token, arm minus full
  // Rows whose attention was weighed: the one that predicts the divergent token (without
  // divergence: the first answer token) to the one that predicts full's last token.
  int first_row = 0;
  int last_row = 0;
  int evidence_begin = -1;
  int evidence_end = -1;
  std::optional<EvidenceSurvival> survival;
  std::vector<TopTokens> tops;  // local where it is defined, and paired
  std::vector<Trial> trials;

  const Trial* trial(std::string_view what) const;  // the first of that name
};

struct ExplainRequest {
  Engine& engine;
  const Tokenizer& tokenizer;
  const ArmPlan& arm;
  AnswerScorer scorer;
  ExplainOptions options;
  // Which samples are worth their restorations; empty: all.
  std::function<bool(const AnswerReport&)> wanted = {};
  StopRequested stop = {};
};

// All samples together, three calls of the engine. One report a sample, in order; nullopt: stopped.
//
// The rows that are weighed are fed the full arm's answer: beyond the first token that differs the
// arm's own would be about another text. The local frame needs absolute positions.
std::optional<std::vector<AnswerReport>> explain_answers(const ExplainRequest& request,
                                                         std::span<const Sample* const> samples);

}  // namespace kvscope
