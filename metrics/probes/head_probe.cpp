#include "metrics/probes/head_probe.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "metrics/probes/output_perturbation.h"
#include "metrics/probes/rebound_mass.h"
#include "metrics/probes/step_bins.h"

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

// Over about the last 32 rows, as the history of a ghost.
void move_average(double value, double& average) { average += (value - average) * (2.0 / 33); }

}  // namespace

void HeadMetric::add(double value, int bin) {
  if (by_step_bin.size() <= std::size_t(bin)) by_step_bin.resize(std::size_t(bin) + 1);
  by_step_bin[std::size_t(bin)].add(value);
  if (std::isfinite(value)) sketch.add(value);
}

HeadMeasurements::HeadMeasurements() {
  for (const auto& quantity : named_quantities<HeadMetric>()) {
    (this->*quantity.member).sketch = Sketch(quantity.scale);
  }
}

HeadProbe::HeadProbe(const AttentionProbeConfig& config, int group_size)
    : config_(config), group_size_(group_size), history_(config.history_rows) {}

int HeadProbe::bin_of(int position) const {
  return step_bin(std::max<std::int64_t>(0, position - first_step_position_.value_or(position)));
}

Universe HeadProbe::universe_at(int position) const {
  return {.first = config_.sink_tokens, .last = position - config_.recent_tokens};
}

void HeadProbe::prompt_cut(int prompt_tokens, std::span<const std::int32_t> ghost_positions,
                           std::span<const float> ghost_recent_mean,
                           std::span<const std::int32_t> resident_positions,
                           std::span<const float> resident_recent_mean) {
  first_step_position_ = prompt_tokens;
  has_evicted_ = std::ssize(resident_positions) < prompt_tokens;
  last_position_ = prompt_tokens - 1;
  history_.start_with_means(resident_recent_mean);
  ghosts_.clear();
  for (std::size_t i = 0; i < ghost_positions.size(); ++i) {
    ghosts_.push_back({.recent_mean = double(ghost_recent_mean[i]), .left_at = last_position_});
    measured_.eviction_age_tokens.add(last_position_ - ghost_positions[i], 0);
  }
  key_tokens_.choose(universe_at(last_position_), ghost_positions, ghost_recent_mean,
                     resident_positions, resident_recent_mean);
}

void HeadProbe::attention_row(const AttentionRow& row) {
  const bool is_first_head = row.query_head == 0;
  if (is_first_head) group_row_ = {};
  group_row_.has_key_tokens = key_tokens_.known() && !row.ghost_logits.empty() &&
                              key_tokens_.remembered_in(row.ghost_logits.size());
  const bool sees_ghosts = !row.ghost_logits.empty();
  visible_weights_.resize(row.visible_logits.size());
  ghost_weights_.resize(row.ghost_logits.size());
  const Universe universe = universe_at(row.position);
  const RowPart visible =
      row_part(row.visible_logits, row.visible_positions, universe, visible_weights_);
  RowPart ghosts{.exp = exp_weights({}, {})};
  if (sees_ghosts) {
    ghosts = row_part(row.ghost_logits, row.ghost_positions, universe, ghost_weights_, false);
  }

  // Each part is relative to its own largest logit; on one scale they are shares of full attention.
  const double visible_share = mass_hit(ghosts.lse(), visible.lse());
  const double ghost_share = rebound_mass(ghosts.lse(), visible.lse());
  scale(visible_weights_, float(visible_share / visible.exp.sum));
  if (sees_ghosts) scale(ghost_weights_, float(ghost_share / ghosts.exp.sum));
  add_to_mean(visible_weights_, group_size_, is_first_head, visible_mean_);
  add_to_mean(ghost_weights_, group_size_, is_first_head, ghost_mean_);
  last_position_ = row.position;

  const bool is_finite =
      std::isfinite(visible.exp.sum) && std::isfinite(ghosts.exp.sum) && std::isfinite(ghost_share);
  group_row_.is_finite = group_row_.is_finite && is_finite;
  has_evicted_ = has_evicted_ || sees_ghosts;
  if (has_evicted_ && !first_step_position_) first_step_position_ = row.position;
  if (is_finite) measure_visible(row, visible);
  if (sees_ghosts && counts(row.position)) {
    if (is_finite) {
      measure(row, visible, ghosts);
    } else {
      for (HeadMetric* metric : {&measured_.rebound_mass, &measured_.mass_hit, &measured_.hit_at_32,
                                 &measured_.hit_at_p90}) {
        metric->add(std::nan(""), bin_of(row.position));
      }
    }
  }
  if (row.query_head == group_size_ - 1) finish_group_row(row);
}

// What needs no ghosts. Rows before the first eviction only say what was normal for this head.
void HeadProbe::measure_visible(const AttentionRow& row, const RowPart& visible) {
  const auto head = std::size_t(row.query_head);
  const double entropy = visible.entropy_nats();
  const double normalised = normalised_entropy(entropy, row.visible_logits.size());
  if (!has_evicted_) {
    if (entropy_before_.size() <= head) {
      entropy_before_.resize(head + 1, normalised);
    }
    move_average(normalised, entropy_before_[head]);
    return;
  }
  if (!counts(row.position)) return;
  const int bin = bin_of(row.position);
  measured_.entropy_nats.add(entropy, bin);
  measured_.effective_tokens.add(std::exp(entropy), bin);
  measured_.normalised_entropy.add(normalised, bin);
  if (head < entropy_before_.size()) {
    measured_.delta_normalised_entropy.add(normalised - entropy_before_[head], bin);
  }
  measured_.largest_weight.add(visible.largest_share(), bin);
  measured_.sink_share.add(visible.sinks_share(), bin);
  measured_.recent_share.add(visible.recent_share(), bin);
}

void HeadProbe::measure(const AttentionRow& row, const RowPart& visible, const RowPart& ghosts) {
  const int bin = bin_of(row.position);
  const double rebound = rebound_mass(ghosts.lse(), visible.lse());
  const double visible_share = mass_hit(ghosts.lse(), visible.lse());
  measured_.rebound_mass.add(rebound, bin);
  measured_.mass_hit.add(visible_share, bin);
  ++measured_.rebound_mass_histogram[histogram_bucket(rebound)];
  measure_hits(row, std::max(visible.exp.largest_logit, ghosts.exp.largest_logit), bin);

  const std::size_t n_seen = row.visible_logits.size() + row.ghost_logits.size();
  measured_.delta_normalised_entropy_full.add(
      normalised_entropy(visible.entropy_nats(), row.visible_logits.size()) -
          normalised_entropy(joint_entropy_nats(visible, ghosts, rebound), n_seen),
      bin);
  // Shares of full attention between sinks and the recent window.
  const double kept = visible_share * visible.inside_share();
  const double lost = rebound * ghosts.inside_share();
  if (kept + lost > 0) measured_.nontrivial_mass_hit.add(kept / (kept + lost), bin);

  if (group_row_.has_key_tokens) {
    group_row_.key_token_drop +=
        key_tokens_.drop(visible_weights_, ghost_weights_, visible_share) / group_size_;
  }
  if (!row.visible_output.empty() && !row.ghost_output.empty()) {
    const double delta = output_perturbation(row.visible_output, row.ghost_output, rebound).ratio();
    measured_.output_perturbation.add(delta, bin);
    group_row_.delta += delta;
    ++group_row_.n_deltas;
  }
}

void HeadProbe::measure_hits(const AttentionRow& row, float top_logit, int bin) {
  const SplitRow split{row.visible_logits, row.visible_positions, row.ghost_logits,
                       row.ghost_positions};
  hit_rate_.begin_row(split, visible_weights_, ghost_weights_, top_logit);
  const TopHits top = hit_rate_.top_hits(kTopKeys, universe_at(row.position), row.position);
  measured_.top_keys.hits += top.all.hits;
  measured_.top_keys.of += top.all.of;
  measured_.hit_at_32.add(top.all.ratio(), bin);
  if (top.inside.of > 0) measured_.nontrivial_hit_at_32.add(top.inside.ratio(), bin);
  std::array<MassHits, kHitMassShares.size()> nuclei;
  hit_rate_.hits_at_masses(kHitMassShares, nuclei);
  measured_.hit_at_p50.add(nuclei[0].hits.ratio(), bin);
  measured_.hit_at_p90.add(nuclei[1].hits.ratio(), bin);
  measured_.hit_at_p99.add(nuclei[2].hits.ratio(), bin);
  measured_.mass_at_p90.add(nuclei[1].mass_ratio(), bin);
}

void HeadProbe::finish_group_row(const AttentionRow& row) {
  // A row with a NaN says nothing about any token's weight; its new tokens still have their slots.
  if (!group_row_.is_finite) std::fill(visible_mean_.begin(), visible_mean_.end(), 0.0F);
  if (group_row_.is_finite && !row.ghost_logits.empty()) {
    detect_events(row);
    if (counts(row.position)) diagnose(row);
  }
  history_.add_row(visible_mean_);
}

void HeadProbe::detect_events(const AttentionRow& row) {
  const std::size_t n_ghosts = row.ghost_logits.size();
  ghosts_.resize(n_ghosts);  // already so where every eviction was reported
  const bool counted = counts(row.position);
  if (counted) measured_.ghost_steps += std::int64_t(n_ghosts);
  const double n_seen = double(row.visible_logits.size() + n_ghosts);
  std::optional<double> smallest;
  for (std::size_t i = 0; i < n_ghosts; ++i) {
    Ghost& ghost = ghosts_[i];
    const double weight = double(ghost_mean_[i]);
    const double threshold = rebound_threshold(config_.rebound, n_seen, ghost.recent_mean);
    if (!rebound_step(config_.rebound, threshold, weight, ghost.is_armed)) continue;
    const bool is_first = !ghost.has_fired;
    ghost.has_fired = true;
    if (!counted) continue;
    ++measured_.rebound_events;
    measured_.event_mass += weight;
    if (is_first) {
      measured_.steps_to_first_event.add(row.position - ghost.left_at, bin_of(row.position));
    }
    if (!smallest) {
      const auto evictable = evictable_weights(row);
      smallest = evictable.empty() ? 2.0 : double(*std::ranges::min_element(evictable));
    }
    measured_.wrongful_evictions += is_wrongful_eviction(weight, *smallest);
  }
}

void HeadProbe::diagnose(const AttentionRow& row) {
  const int bin = bin_of(row.position);
  double rebound = 0;
  for (const float weight : ghost_mean_) rebound += double(weight);
  measured_.group_rebound_mass += rebound;
  if (group_row_.has_key_tokens) measured_.key_token_drop.add(group_row_.key_token_drop, bin);
  if (next_diagnosis_ && row.position < *next_diagnosis_) return;
  next_diagnosis_ = row.position + config_.diagnosis_every;

  std::optional<double> delta;
  if (group_row_.n_deltas == group_size_) delta = group_row_.delta / group_size_;
  const SwapDiagnosis found =
      diagnose_swap(config_.swap, rebound, delta, ghost_mean_, evictable_weights(row));
  const auto is = [&](SwapReading reading) { return found.reading == reading ? 1.0 : 0.0; };
  measured_.diagnosed_healthy.add(is(SwapReading::kHealthy), bin);
  measured_.diagnosed_wrong_place.add(is(SwapReading::kWrongPlace), bin);
  measured_.diagnosed_too_much.add(is(SwapReading::kTooMuch), bin);
  if (found.reading == SwapReading::kHealthy) return;
  measured_.ghosts_needed.add(found.ghosts_needed, bin);
  measured_.spare_slots.add(found.spare_slots, bin);
  if (found.reading == SwapReading::kTooMuch) {
    const double budget = double(row.visible_logits.size()) - 1;  // without the row's own token
    measured_.suggested_budget_tokens.add(budget + found.ghosts_needed - found.spare_slots, bin);
  }
}

std::span<const float> HeadProbe::evictable_weights(const AttentionRow& row) {
  evictable_weights_.clear();
  for (std::size_t i = 0; i < visible_mean_.size(); ++i) {
    const std::int32_t position = row.visible_positions[i];
    if (position < config_.protected_sinks) continue;
    if (position > row.position - config_.protected_recent) continue;
    evictable_weights_.push_back(visible_mean_[i]);
  }
  return evictable_weights_;
}

void HeadProbe::evicted(int position, int slot, int last_slot) {
  has_evicted_ = true;
  key_tokens_.evicted(slot, last_slot, int(ghosts_.size()));
  ghosts_.push_back({.recent_mean = history_.mean(slot), .left_at = last_position_});
  history_.remove(slot, last_slot);
  if (counts(last_position_)) {
    measured_.eviction_age_tokens.add(last_position_ - position, bin_of(last_position_));
  }
}

std::int64_t HeadProbe::bytes() const {
  return history_.bytes() + std::int64_t(ghosts_.capacity() * sizeof(Ghost));
}

}  // namespace kvscope
