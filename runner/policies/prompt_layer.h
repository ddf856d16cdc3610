// One layer of a dense prompt as a policy's cut sees it, and what the cut may ask for. The engine
// computes and pays for exactly what is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/policies/policy_state.h"

namespace kvscope {

struct PromptNeed {
  // Sums over rows, for every query head: w(i) = Σ_u weight_u · a_u(i).
  enum class Rows : std::uint8_t { kNone, kLast, kAll } rows = Rows::kNone;
  int last_rows = 0;   // for kLast: the newest rows of the prompt
  float decay = 1.0F;  // weight_u = decay^(P-1-u)
  bool mean = false;   // weights divided by the number of rows
  // Probabilities row by row, for scores that are no sums: 0 none, else the newest so many rows.
  int replay_rows = 0;
  bool keys = false;
  bool raw_keys = false;
  bool values = false;
  bool queries = false;
  bool operator==(const PromptNeed&) const = default;

  static constexpr int kAllRows = 1 << 30;
  // The sums alone: arms that differ in the rest share them.
  PromptNeed sums() const { return {rows, last_rows, decay, mean}; }
};

// Probabilities of dense rows, in order of time.
class PromptRows {
 public:
  virtual ~PromptRows() = default;
  // probabilities: [n_heads][stride], of which u + 1 columns are row u's.
  using Visit = std::function<void(int u, std::span<const float> probabilities, int stride)>;
  virtual void for_each(int first_row, const Visit& visit) const = 0;
};

struct PromptLayer {
  int layer = 0;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int prompt_tokens = 0;                  // P
  std::span<const float> column_weights;  // [n_heads][P], empty for Rows::kNone
  int head_dim = 0;
  std::span<const float> keys;               // [n_kv_heads][P][head_dim] rotated to their positions
  std::span<const float> raw_keys;           // the same before RoPE
  std::span<const float> values;             // [n_kv_heads][P][head_dim]
  std::span<const float> queries;            // [n_heads][P][head_dim] before RoPE
  std::span<const float> inverse_frequency;  // [head_dim / 2] of the pairs (2i, 2i+1)
  const PromptRows* rows = nullptr;          // where replay_rows was asked for
};

// What one KV head keeps. `statistic`, `count` and `state` start the in-stream rule; empty if it
// has none.
struct KeptHead {
  std::vector<std::int32_t> positions;  // ascending original positions
  std::vector<float> statistic;         // [positions.size()]
  // [positions.size()]: rows that saw the token (Statistic::kMean), its last use (kLastUse)
  std::vector<std::uint32_t> count;
  // Scores of the cut that were NaN; those tokens leave first (policies.md 1.4).
  int nan_scores = 0;
  int budget_tokens = 0;                               // of this head from here on; 0: the policy's
  std::shared_ptr<const PolicyState> state = nullptr;  // of host rules
  std::string error = {};  // not empty: the cut failed, positions are a fallback
};

// Cuts the layers of one prompt in order where a layer's budget depends on other layers (cascade,
// policies.md 2.12): what a layer gets may take tokens from earlier ones again.
class PromptCascade {
 public:
  virtual ~PromptCascade() = default;
  virtual std::vector<KeptHead> cut(const PromptLayer& layer) = 0;

  struct Recut {
    int layer = 0;
    std::vector<KeptHead> heads;  // subsets of what the layer kept before
  };
  // What the last cut() took from earlier layers; empties the list.
  virtual std::vector<Recut> take_recuts() = 0;
};

}  // namespace kvscope
