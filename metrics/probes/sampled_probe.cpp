#include "metrics/probes/sampled_probe.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "metrics/probes/rebound_mass.h"
#include "runner/base/exp_weights.h"

namespace kvscope {
namespace {

struct Total {
  double sum = 0;
  std::int64_t n = 0;
};

Total total_of(const std::vector<RunningStat>& by_step_bin) {
  Total total;
  for (const RunningStat& bin : by_step_bin) {
    total.sum += bin.mean * double(bin.n);
    total.n += bin.n;
  }
  return total;
}

std::array<Total, kSampledMetrics> totals_of(const HeadMeasurements& measured) {
  std::array<Total, kSampledMetrics> totals;
  totals[kReboundMassSteps] = total_of(measured.rebound_mass.by_step_bin);
  totals[kHitAt32Steps] = total_of(measured.hit_at_32.by_step_bin);
  totals[kHitAtP90Steps] = total_of(measured.hit_at_p90.by_step_bin);
  return totals;
}

// Σ w·(z - largest). Independent lanes, combined in a fixed order, so that it vectorises.
double weighted_depth(std::span<const float> weights, std::span<const float> logits,
                      float largest) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += double(weights[i + lane] * (logits[i + lane] - largest));
  }
  for (; i < weights.size(); ++i) lanes[0] += double(weights[i] * (logits[i] - largest));
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// One layer of `from`, of whose values none are in the means.
void show_layer(ProbeSummary& summary, const ProbeSummary& from, int layer) {
  const auto at = std::size_t(layer);
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    (summary.*quantity.member).by_layer[at] = (from.*quantity.member).by_layer[at];
  }
}

void note_ghosts(GhostFacts& facts, const AttentionRow& row) {
  facts.logit_bound = std::max(facts.logit_bound, double(row.ghost_logit_bound));
  if (row.query_head > 0) return;
  facts.n_remembered += std::ssize(row.ghost_logits);
  facts.n_forgotten += row.n_forgotten;
}

}  // namespace

SampledProbe::SampledProbe(const AttentionProbeShape& shape, const AttentionProbeConfig& config,
                           SamplingPlan plan)
    : shape_(shape),
      first_counted_position_(config.first_counted_position),
      plan_(std::move(plan)),
      probe_(shape, config),
      heads_(std::size_t(shape.n_layers) * std::size_t(shape.n_kv_heads)) {
  if (plan_.extra_layer) extra_.emplace(shape, config);
}

RowView SampledProbe::layer_view(int layer) const {
  if (!plan_.looks_at(layer)) return RowView::kNothing;
  return plan_.every > 0 ? RowView::kOutputs : RowView::kVisible;
}

RowView SampledProbe::row_view(int layer, int kv_head, int position) const {
  if (!plan_.looks_at(layer)) return RowView::kNothing;
  if (plan_.shows_ghosts(position)) return RowView::kOutputs;
  if (plan_.burst_rows == 0) return RowView::kVisible;
  const auto place = std::size_t(layer) * std::size_t(shape_.n_kv_heads) + std::size_t(kv_head);
  return position < heads_[place].burst_end ? RowView::kGhosts : RowView::kVisible;
}

void SampledProbe::prompt_cut(int layer, int kv_head, int prompt_tokens,
                              std::span<const std::int32_t> ghost_positions,
                              std::span<const float> ghost_recent_mean,
                              std::span<const std::int32_t> resident_positions,
                              std::span<const float> resident_recent_mean) {
  probe_of(layer).prompt_cut(layer, kv_head, prompt_tokens, ghost_positions, ghost_recent_mean,
                             resident_positions, resident_recent_mean);
}

void SampledProbe::evicted(int layer, int kv_head, int position, int slot, int last_slot) {
  probe_of(layer).evicted(layer, kv_head, position, slot, last_slot);
}

void SampledProbe::attention_row(const AttentionRow& row) {
  Head& own = head(row.layer, row.kv_head);
  note_ghosts(own.ghosts, row);
  if (plan_.is_complete()) return probe_.attention_row(row);
  if (plan_.shows_ghosts(row.position)) {
    note_step(own, row);
  } else if (!row.ghost_logits.empty()) {
    // A burst's row: the probe sees of it what it sees of the rows around it.
    own.weights.resize(std::max(row.visible_logits.size(), row.ghost_logits.size()));
    const auto lse = [&](std::span<const float> logits) {
      return exp_weights(logits, std::span(own.weights).first(logits.size())).lse();
    };
    if (row.position >= first_counted_position_)
      own.burst_rebound_mass.add(rebound_mass(lse(row.ghost_logits), lse(row.visible_logits)));
    AttentionRow visible = row;
    visible.ghost_logits = {};
    visible.ghost_positions = {};
    probe_of(row.layer).attention_row(visible);
  } else {
    probe_of(row.layer).attention_row(row);
  }
  if (plan_.burst_rows > 0) watch(own, row);
}

// Mean over the group, then the alarm.
void SampledProbe::watch(Head& head, const AttentionRow& row) {
  if (row.query_head == 0) head.entropy_nats = head.lse_visible = 0;
  head.weights.resize(std::max(head.weights.size(), row.visible_logits.size()));
  const auto weights = std::span(head.weights).first(row.visible_logits.size());
  const ExpSum sum = exp_weights(row.visible_logits, weights);
  const double weighted = weighted_depth(weights, row.visible_logits, sum.largest_logit);
  const double share = 1.0 / shape_.group_size;
  head.entropy_nats += share * (std::log(sum.sum) - weighted / sum.sum);
  head.lse_visible += share * sum.lse();
  if (row.query_head != shape_.group_size - 1) return;
  const bool fires = head.alarm.add(head.entropy_nats, head.lse_visible);
  if (!fires || row.position < head.burst_end) return;
  head.burst_end = row.position + 1 + plan_.burst_rows;
  if (row.position >= first_counted_position_) ++head.n_bursts;
}

// What the probe made of the row is what it added to its sums.
void SampledProbe::note_step(Head& head, const AttentionRow& row) {
  AttentionProbe& probe = probe_of(row.layer);
  const HeadMeasurements& measured = probe.measured(row.layer, row.kv_head);
  const auto before = totals_of(measured);
  probe.attention_row(row);
  const auto after = totals_of(measured);
  const std::int64_t n = after[kReboundMassSteps].n - before[kReboundMassSteps].n;
  if (n == 0 || row.layer == plan_.extra_layer) return;
  if (head.steps.empty() || head.steps.back().position != row.position)
    head.steps.push_back({.position = row.position});
  StepSums& step = head.steps.back();
  step.n += n;
  for (std::size_t m = 0; m < after.size(); ++m) step.sums[m] += after[m].sum - before[m].sum;
}

SampledFacts SampledProbe::sampled_facts() const {
  SampledFacts facts;
  std::map<std::int32_t, StepSums> steps;  // by position, so that bits do not depend on threads
  for (const Head& head : heads_) {
    for (const StepSums& of_head : head.steps) {
      StepSums& step = steps[of_head.position];
      step.n += of_head.n;
      for (std::size_t m = 0; m < step.sums.size(); ++m) step.sums[m] += of_head.sums[m];
    }
    facts.burst_rebound_mass.merge(head.burst_rebound_mass);
    facts.n_bursts += head.n_bursts;
  }
  for (const auto& [position, step] : steps) {
    for (std::size_t m = 0; m < step.sums.size(); ++m)
      facts.step_means[m].push_back(step.sums[m] / double(step.n));
  }
  return facts;
}

ProbeSummary SampledProbe::summary() const {
  ProbeSummary summary = probe_.summary();
  for (const Head& head : heads_) summary.ghosts.merge(head.ghosts);
  if (plan_.is_complete()) return summary;
  if (plan_.extra_layer) show_layer(summary, extra_->summary(), *plan_.extra_layer);
  summary.sampled = sampled_facts();
  return summary;
}

}  // namespace kvscope
