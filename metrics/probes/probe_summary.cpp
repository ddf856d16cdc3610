#include "metrics/probes/probe_summary.h"

#include <algorithm>

namespace kvscope {
namespace {

void merge_each(std::vector<RunningStat>& into, const std::vector<RunningStat>& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) into[i].merge(from[i]);
}

}  // namespace

void ProbeMetric::merge(const ProbeMetric& other, Worst worst) {
  overall.merge(other.overall);
  merge_each(by_layer, other.by_layer);
  merge_each(by_step_bin, other.by_step_bin);
  sketch.merge(other.sketch);
  if (other.worst_head) take_worse(*other.worst_head, worst);
}

void ProbeMetric::take_worse(const WorstHead& head, Worst worst) {
  const bool is_worse = !worst_head || (worst == Worst::kLargest ? head.mean > worst_head->mean
                                                                 : head.mean < worst_head->mean);
  if (is_worse) worst_head = head;
}

ProbeSummary::ProbeSummary() {
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    (this->*quantity.member).sketch = Sketch(quantity.scale);
  }
}

std::optional<double> ProbeSummary::events_per_1k_ghost_steps() const {
  if (ghost_steps == 0) return std::nullopt;
  return 1000 * double(rebound_events) / double(ghost_steps);
}

std::optional<double> ProbeSummary::event_mass_share() const {
  if (!(group_rebound_mass > 0)) return std::nullopt;
  return event_mass / group_rebound_mass;
}

void ProbeSummary::merge(const ProbeSummary& other) {
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    (this->*quantity.member).merge(other.*quantity.member, quantity.worst);
  }
  for (std::size_t i = 0; i < rebound_mass_histogram.size(); ++i) {
    rebound_mass_histogram[i] += other.rebound_mass_histogram[i];
  }
  top_key_hits += other.top_key_hits;
  top_key_misses += other.top_key_misses;
  rebound_events += other.rebound_events;
  wrongful_evictions += other.wrongful_evictions;
  ghost_steps += other.ghost_steps;
  event_mass += other.event_mass;
  group_rebound_mass += other.group_rebound_mass;
  ghosts.merge(other.ghosts);
  if (!other.sampled) return;
  if (!sampled) sampled.emplace();
  sampled->merge(*other.sampled);
}

}  // namespace kvscope
