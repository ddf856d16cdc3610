#include "metrics/probes/group_weights.h"

#include <algorithm>
#include <cmath>

#include "metrics/probes/rebound_mass.h"
#include "runner/base/exp_weights.h"

namespace kvscope {
namespace {

// mean += weights · factor / group size, started by the group's first head.
void add_to_mean(std::vector<float>& weights, float factor, int group_size, bool is_first,
                 std::vector<float>& mean) {
  if (is_first) mean.assign(weights.size(), 0.0F);
  const float share = 1.0F / float(group_size);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] *= factor;
    mean[i] += weights[i] * share;
  }
}

}  // namespace

bool GroupWeights::add(const AttentionRow& row) {
  const bool is_first = row.query_head == 0;
  visible_.resize(row.visible_logits.size());
  ghosts_.resize(row.ghost_logits.size());
  const ExpSum visible = exp_weights(row.visible_logits, visible_);
  const ExpSum ghosts = exp_weights(row.ghost_logits, ghosts_);
  // Each part is relative to its own largest logit.
  const double visible_share = mass_hit(ghosts.lse(), visible.lse());
  const double ghost_share = rebound_mass(ghosts.lse(), visible.lse());
  add_to_mean(visible_, float(visible_share / visible.sum), group_size_, is_first, visible_mean_);
  const float ghost_factor = row.ghost_logits.empty() ? 0.0F : float(ghost_share / ghosts.sum);
  add_to_mean(ghosts_, ghost_factor, group_size_, is_first, ghost_mean_);
  const bool finite =
      std::isfinite(visible.sum) && std::isfinite(ghosts.sum) && std::isfinite(ghost_share);
  is_finite_ = (is_first || is_finite_) && finite;
  if (row.query_head + 1 < group_size_) return false;
  if (!is_finite_) {
    std::fill(visible_mean_.begin(), visible_mean_.end(), 0.0F);
    std::fill(ghost_mean_.begin(), ghost_mean_.end(), 0.0F);
  }
  return true;
}

}  // namespace kvscope
