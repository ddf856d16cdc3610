#include "metrics/probes/probe_summary.h"

#include <algorithm>

namespace kvscope {
namespace {

void merge_each(std::vector<RunningStat>& into, const std::vector<RunningStat>& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) into[i].merge(from[i]);
}

}  // namespace

void ProbeMetric::merge(const ProbeMetric& other) {
  overall.merge(other.overall);
  merge_each(by_layer, other.by_layer);
  merge_each(by_step_bin, other.by_step_bin);
}

void ProbeSummary::merge(const ProbeSummary& other) {
  rebound_mass.merge(other.rebound_mass);
  hit_at_32.merge(other.hit_at_32);
  hit_at_p90.merge(other.hit_at_p90);
  mass_hit.merge(other.mass_hit);
  for (std::size_t i = 0; i < rebound_mass_histogram.size(); ++i) {
    rebound_mass_histogram[i] += other.rebound_mass_histogram[i];
  }
  top_key_hits += other.top_key_hits;
  top_key_misses += other.top_key_misses;
  rebound_events += other.rebound_events;
  wrongful_evictions += other.wrongful_evictions;
  ghost_steps += other.ghost_steps;
  ghosts.merge(other.ghosts);
  if (!other.sampled) return;
  if (!sampled) sampled.emplace();
  sampled->merge(*other.sampled);
}

}  // namespace kvscope
