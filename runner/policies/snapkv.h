// SnapKV's score as pure functions, shared with what allocates budgets on top of it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace kvscope {

struct SnapKvOptions {
  enum class Pool { kAvg, kMax } pool = Pool::kAvg;
  enum class Gqa { kMean, kMax, kSum } gqa = Gqa::kMean;
  int window = 32;          // newest rows of the prompt that vote, always kept
  int kernel = 5;           // odd
  bool pool_first = false;  // order=pool_agg: pool each query head, then reduce the group
  bool valid_edge = false;  // pool_edge=valid: averages over what exists, not over zero padding
};

// 1-D pooling, stride 1, same length. Average: zero padding counts unless options.valid_edge;
// maximum: −∞ padding.
std::vector<float> pool_scores(const SnapKvOptions& options, std::span<const float> scores);

// Scores of the prefix of one KV head. weights: [n_heads][prompt_tokens], mean over the window's
// rows of each query head's softmax over its whole causal row. Result: [prompt_tokens - window].
std::vector<float> snapkv_scores(const SnapKvOptions& options, std::span<const float> weights,
                                 int n_heads, int prompt_tokens);

}  // namespace kvscope
