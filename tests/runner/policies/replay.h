// Drives the real policy code over recorded attention: probabilities of a table, re-normalised over
// what is visible (policies.md 1.9, replay mode).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runner/policies/policy.h"
#include "runner/policies/registry.h"
#include "runner/policies/spec.h"

namespace kvscope::testing {

using Positions = std::vector<std::int32_t>;

// exp(logit) of row t on token i ≤ t, for each query head of a layer.
struct AttentionTable {
  int n_heads = 1;
  int n_tokens = 0;
  std::vector<double> weights;  // [n_heads][n_tokens][n_tokens], lower triangle

  AttentionTable(int heads, int tokens);
  double& at(int head, int row, int token);
  double at(int head, int row, int token) const;
};

// [n_heads][visible.size()], for the heads first … first + n_heads - 1
std::vector<float> probabilities(const AttentionTable& table, int first, int n_heads, int row,
                                 const Positions& visible);
// [table.n_heads][prompt_tokens] of the dense prompt
std::vector<float> column_weights(const AttentionTable& table, const PromptNeed& need,
                                  int prompt_tokens);

std::shared_ptr<const Policy> fitted(const std::string& text, int budget_tokens, int length,
                                     bool in_stream = false);

class Replay {
 public:
  Replay(std::shared_ptr<const Policy> policy, const AttentionTable& table, int n_kv_heads,
         int layer = 0);

  // The prompt as the arm's prefill mode wants it: dense with a cut at its end, or in chunks.
  // Without a prompt the policy acts from the first token on.
  void prompt(int prompt_tokens);
  // Tokens first … last join one by one; each row attends and is observed, then one selection.
  void chunk(int first, int last);
  void step(int token) { chunk(token, token); }

  const Positions& visible(int kv_head = 0) const { return unit(kv_head).visible; }
  const Positions& kept(int kv_head = 0) const { return unit(kv_head).kept; }
  const PolicyState* state(int kv_head = 0) const { return unit(kv_head).state.get(); }
  const std::vector<KeptHead>& cut() const { return cut_; }

 private:
  struct Unit {
    Positions visible;
    Positions kept;
    std::unique_ptr<PolicyState> state;
  };
  void stream_prompt(int prompt_tokens);

  const Unit& unit(int kv_head) const { return units_[units_.size() == 1 ? 0 : kv_head]; }

  std::shared_ptr<const Policy> policy_;
  const AttentionTable& table_;
  int n_kv_heads_;
  int layer_;
  std::vector<KeptHead> cut_;
  std::vector<Unit> units_;  // one, or one a KV head
};

}  // namespace kvscope::testing
