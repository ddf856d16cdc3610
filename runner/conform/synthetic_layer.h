// A made-up attention layer: what its rows attend with, and what a policy may see of a dense
// prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/policies/policy.h"

namespace kvscope::conform {

using Positions = std::vector<std::int32_t>;

// exp(logit) of row t on token i ≤ t, for each query head of a layer.
struct AttentionTable {
  int n_heads = 1;
  int n_tokens = 0;
  std::vector<double> weights;  // [n_heads][n_tokens][n_tokens], lower triangle

  AttentionTable() = default;
  AttentionTable(int heads, int tokens);  // uniform
  double& at(int head, int row, int token);
  double at(int head, int row, int token) const;
};

struct SyntheticLayer {
  int n_kv_heads = 1;
  AttentionTable table;
  int head_dim = 0;                      // 0: no contents
  std::vector<float> queries;            // [n_heads][n_tokens][head_dim] before RoPE
  std::vector<float> keys;               // [n_kv_heads][n_tokens][head_dim] before RoPE
  std::vector<float> values;             // [n_kv_heads][n_tokens][head_dim]
  std::vector<float> inverse_frequency;  // [head_dim / 2] of the pairs (2i, 2i + 1)
};

// Rotates a vector of pairs to a position.
void rotate_pairs(std::span<const float> inverse_frequency, int position, std::span<float> vector);

// Fills the table with exp(q·k/√d) of the contents at their own positions.
void attend_by_contents(SyntheticLayer& layer);

// Probabilities of a row, re-normalised over what is visible (policies.md 1.9, replay mode):
// [n_heads][visible.size()], for the heads first … first + n_heads - 1. visible: any order.
std::vector<float> probabilities(const AttentionTable& table, int first, int n_heads, int row,
                                 const Positions& visible);
// [table.n_heads][prompt_tokens] of the dense prompt
std::vector<float> column_weights(const AttentionTable& table, const PromptNeed& need,
                                  int prompt_tokens);

// The first tokens of a layer as a dense prompt; a policy gets what it asked for and no more.
class DensePrompt final : public PromptRows {
 public:
  DensePrompt(const SyntheticLayer& layer, const PromptNeed& need, int prompt_tokens);
  DensePrompt(const DensePrompt&) = delete;
  DensePrompt& operator=(const DensePrompt&) = delete;

  // Points into this object. What the caller changes in it, the policy sees.
  PromptLayer view(int layer, int n_layers) const;
  void for_each(int first_row, const Visit& visit) const override;

 private:
  const SyntheticLayer& layer_;
  PromptNeed need_;
  int prompt_tokens_;
  std::vector<float> column_weights_;
  std::vector<float> keys_;
  std::vector<float> raw_keys_;
  std::vector<float> values_;
  std::vector<float> queries_;
};

}  // namespace kvscope::conform
