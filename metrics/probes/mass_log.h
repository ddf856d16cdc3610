// How much of a few rows' full attention falls on every token of every (layer, KV head): what
// explains one answer, where AttentionProbe describes a whole sequence.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "metrics/probes/attention_probe.h"
#include "metrics/probes/group_weights.h"
#include "runner/engine/probe_sink.h"

namespace kvscope {

// Sums over the rows at the given positions; weights as in group_weights.h. Frame: local to the
// watched sequence. One that evicts nothing, fed the full arm's tokens, has the full arm's
// bits: the paired frame (policies.md 8).
class MassLog final : public ProbeSink {
 public:
  MassLog(const AttentionProbeShape& shape, std::vector<int> rows);  // ascending positions

  std::span<const int> rows() const { return rows_; }

  void prompt_cut(int layer, int kv_head, int prompt_tokens,
                  std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const std::int32_t> resident_positions,
                  std::span<const float> resident_recent_mean) override;
  void attention_row(const AttentionRow& row) override;
  void evicted(int layer, int kv_head, int position, int slot, int last_slot) override;

  // When no call is under way. [positions seen], 0 for tokens that no row saw; of the token while
  // it was evicted, and while it was cached.
  std::span<const double> ghost_mass(int layer, int kv_head) const;
  std::span<const double> cached_mass(int layer, int kv_head) const;
  // Position of the last row that saw the token before it was evicted; nothing: it was not.
  std::optional<int> evicted_at(int layer, int kv_head, std::int32_t position) const;

 private:
  struct Head {
    GroupWeights weights;
    std::vector<double> ghost_mass;
    std::vector<double> cached_mass;
    std::map<std::int32_t, int> evicted_at;
    int last_row = 0;
  };
  const Head& head(int layer, int kv_head) const {
    return heads_[std::size_t(layer) * std::size_t(n_kv_heads_) + std::size_t(kv_head)];
  }
  Head& head(int layer, int kv_head) {
    return heads_[std::size_t(layer) * std::size_t(n_kv_heads_) + std::size_t(kv_head)];
  }
  int n_kv_heads_;
  std::vector<int> rows_;
  std::vector<Head> heads_;  // [n_layers][n_kv_heads]
};

}  // namespace kvscope
