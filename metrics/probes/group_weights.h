// Weights of one attention row of a KV head, as rebound events weigh tokens: shares of full
// attention, averaged over the group's query heads (head_probe.h; the same arithmetic).
#pragma once

#include <span>
#include <vector>

#include "runner/engine/probe_sink.h"

namespace kvscope {

class GroupWeights {
 public:
  explicit GroupWeights(int group_size) : group_size_(group_size) {}

  // True with the group's last query head: the row is complete. Weights that are not finite say
  // nothing about any token: all become 0 then.
  bool add(const AttentionRow& row);

  bool is_finite() const { return is_finite_; }
  std::span<const float> visible() const { return visible_mean_; }  // [n_visible]
  std::span<const float> ghosts() const { return ghost_mean_; }     // [n_ghosts]

 private:
  int group_size_;
  bool is_finite_ = true;
  std::vector<float> visible_;  // of one query head
  std::vector<float> ghosts_;
  std::vector<float> visible_mean_;
  std::vector<float> ghost_mean_;
};

}  // namespace kvscope
