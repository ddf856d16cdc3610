// The prompt-end cut of one layer for one arm: statistics of the dense rows, the policy's pure
// selection, the gather.
#pragma once

#include <map>
#include <vector>

#include "runner/engine/sequence.h"

namespace kvscope {

// What cuts ask about one layer's dense prompt, each computed once for all arms that share it.
class PromptStatistics final : public PromptRows {
 public:
  PromptStatistics(Backend& backend, const AttentionShape& shape, const RopeTable& rope,
                   const HeadCache* heads, const float* qkv, const float* lse, int prompt_tokens);
  // [n_heads][prompt_tokens]; empty for Rows::kNone.
  std::span<const float> weights(const PromptNeed& need);
  PromptLayer view(const PromptNeed& need, int layer, int n_layers);
  const HeadCache& head(int kv_head) const { return job_.heads[kv_head]; }  // the dense prompt
  void for_each(int first_row, const Visit& visit) const override;

 private:
  // [n][prompt_tokens][head_dim] of heads first … first + n - 1 of a row, rotated or as projected.
  std::vector<float> by_head(int first, int n, bool rotated) const;

  Backend& backend_;
  const AttentionShape& shape_;
  const RopeTable& rope_;
  ColumnWeightsJob job_;
  std::vector<std::pair<PromptNeed, std::vector<float>>> done_;
  std::vector<float> keys_;      // [n_kv_heads][prompt_tokens][head_dim]
  std::vector<float> raw_keys_;  // the same before RoPE
  std::vector<float> values_;    // likewise
  std::vector<float> queries_;   // [n_heads][prompt_tokens][head_dim]
};

struct CutJob {  // one arm at one layer
  const Policy* policy = nullptr;
  Sequence* sequence = nullptr;
  RowRule after;                     // what the rows after the prompt run under
  ProbeSink* probe = nullptr;        // told what went, with its recent weights
  PromptCascade* cascade = nullptr;  // if set: cuts instead of the policy
  double seconds = 0.0;              // out: its selection, and its share of the common copying
};

// Rows of the prompt that make a token's history when it is evicted at the prompt's end
// (policies.md 8.1, w_h).
inline constexpr int kHistoryRows = 32;

void cut_prompt(Backend& backend, const AttentionShape& shape, const RopeTable& rope, int layer,
                int n_layers, int prompt_tokens, const float* qkv, PromptStatistics& statistics,
                std::span<CutJob> cuts);

}  // namespace kvscope
