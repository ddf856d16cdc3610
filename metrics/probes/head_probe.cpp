#include "metrics/probes/head_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/probes/rebound_mass.h"
#include "metrics/probes/step_bins.h"
#include "runner/base/exp_weights.h"

namespace kvscope {
namespace {

void scale(std::span<float> values, float factor) {
  for (float& value : values) value *= factor;
}

// mean += weights / group size, started by the group's first head.
void add_to_mean(std::span<const float> weights, int group_size, bool is_first,
                 std::vector<float>& mean) {
  if (is_first) mean.assign(weights.size(), 0.0F);
  const float share = 1.0F / float(group_size);
  for (std::size_t i = 0; i < weights.size(); ++i) mean[i] += weights[i] * share;
}

std::size_t histogram_bucket(double rebound) {
  return std::size_t(std::lower_bound(kReboundMassEdges.begin(), kReboundMassEdges.end(), rebound) -
                     kReboundMassEdges.begin());
}

}  // namespace

void HeadMeasurements::Metric::add(double value, int bin) {
  overall.add(value);
  if (by_step_bin.size() <= std::size_t(bin)) by_step_bin.resize(std::size_t(bin) + 1);
  by_step_bin[std::size_t(bin)].add(value);
}

void HeadProbe::prompt_cut(int prompt_tokens, std::span<const std::int32_t> ghost_positions,
                           std::span<const float> ghost_recent_mean,
                           std::span<const float> resident_recent_mean) {
  first_step_position_ = prompt_tokens;
  history_.start_with_means(resident_recent_mean);
  ghosts_.clear();
  for (std::size_t i = 0; i < ghost_positions.size(); ++i) {
    ghosts_.push_back({.recent_mean = double(ghost_recent_mean[i])});
  }
}

void HeadProbe::attention_row(const AttentionRow& row) {
  const bool is_first_head = row.query_head == 0;
  visible_weights_.resize(row.visible_logits.size());
  ghost_weights_.resize(row.ghost_logits.size());
  const ExpSum visible = exp_weights(row.visible_logits, visible_weights_);
  const ExpSum ghosts = exp_weights(row.ghost_logits, ghost_weights_);
  const double lse_visible = visible.lse();
  const double lse_ghosts = ghosts.lse();

  // Each part is relative to its own largest logit; on one scale they are shares of full attention.
  const double visible_share = mass_hit(lse_ghosts, lse_visible);
  const double ghost_share = rebound_mass(lse_ghosts, lse_visible);
  scale(visible_weights_, float(visible_share / visible.sum));
  if (!row.ghost_logits.empty()) scale(ghost_weights_, float(ghost_share / ghosts.sum));
  add_to_mean(visible_weights_, group_size_, is_first_head, visible_mean_);
  add_to_mean(ghost_weights_, group_size_, is_first_head, ghost_mean_);

  const bool is_finite =
      std::isfinite(visible.sum) && std::isfinite(ghosts.sum) && std::isfinite(ghost_share);
  group_row_is_finite_ = (is_first_head || group_row_is_finite_) && is_finite;
  if (!row.ghost_logits.empty()) measure(row, lse_visible, is_finite ? lse_ghosts : std::nan(""));
  if (row.query_head == group_size_ - 1) finish_group_row(row);
}

void HeadProbe::measure(const AttentionRow& row, double lse_visible, double lse_ghosts) {
  if (!first_step_position_) first_step_position_ = row.position;
  if (!counts(row)) return;
  const int bin = step_bin(std::max<std::int64_t>(0, row.position - *first_step_position_));
  const double rebound = rebound_mass(lse_ghosts, lse_visible);
  measured_.rebound_mass.add(rebound, bin);
  measured_.mass_hit.add(mass_hit(lse_ghosts, lse_visible), bin);
  if (std::isnan(rebound)) {
    measured_.hit_at_32.add(rebound, bin);
    measured_.hit_at_p90.add(rebound, bin);
    return;
  }
  ++measured_.rebound_mass_histogram[histogram_bucket(rebound)];

  const SplitRow split{row.visible_logits, row.visible_positions, row.ghost_logits,
                       row.ghost_positions};
  const Hits top = hit_rate_.hit_at_k(split, kTopKeys);
  measured_.top_keys.hits += top.hits;
  measured_.top_keys.of += top.of;
  measured_.hit_at_32.add(top.ratio(), bin);
  measured_.hit_at_p90.add(
      hit_rate_.hit_at_mass(split, visible_weights_, ghost_weights_, kHitMassShare).ratio(), bin);
}

void HeadProbe::finish_group_row(const AttentionRow& row) {
  // A row with a NaN says nothing about any token's weight; its new tokens still have their slots.
  if (!group_row_is_finite_) std::fill(visible_mean_.begin(), visible_mean_.end(), 0.0F);
  if (group_row_is_finite_ && !row.ghost_logits.empty()) detect_events(row);
  history_.add_row(visible_mean_);
}

void HeadProbe::detect_events(const AttentionRow& row) {
  const std::size_t n_ghosts = row.ghost_logits.size();
  ghosts_.resize(n_ghosts);  // already so where every eviction was reported
  if (counts(row)) measured_.ghost_steps += std::int64_t(n_ghosts);
  const double n_seen = double(row.visible_logits.size() + n_ghosts);
  std::optional<double> smallest;
  for (std::size_t i = 0; i < n_ghosts; ++i) {
    Ghost& ghost = ghosts_[i];
    const double weight = double(ghost_mean_[i]);
    const double threshold = rebound_threshold(config_.rebound, n_seen, ghost.recent_mean);
    if (!rebound_step(config_.rebound, threshold, weight, ghost.is_armed)) continue;
    if (!counts(row)) continue;
    ++measured_.rebound_events;
    if (!smallest) smallest = smallest_evictable_weight(row);
    measured_.wrongful_evictions += is_wrongful_eviction(weight, *smallest);
  }
}

double HeadProbe::smallest_evictable_weight(const AttentionRow& row) const {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < visible_mean_.size(); ++i) {
    const std::int32_t position = row.visible_positions[i];
    if (position < config_.protected_sinks) continue;
    if (position > row.position - config_.protected_recent) continue;
    smallest = std::min(smallest, double(visible_mean_[i]));
  }
  return smallest;
}

void HeadProbe::evicted(int slot, int last_slot) {
  ghosts_.push_back({.recent_mean = history_.mean(slot)});
  history_.remove(slot, last_slot);
}

std::int64_t HeadProbe::bytes() const {
  return history_.bytes() + std::int64_t(ghosts_.capacity() * sizeof(Ghost));
}

}  // namespace kvscope
