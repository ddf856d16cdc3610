// What the attention probe measured over one sequence of one arm. Frame: local (policies.md 8),
// full attention recomputed with the arm's own queries and keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/probes/ghost_facts.h"
#include "metrics/probes/probe_quantities.h"
#include "metrics/probes/sampled_facts.h"
#include "metrics/stats/running_stat.h"
#include "metrics/stats/sketch.h"

namespace kvscope {

// Upper edges of the histogram of rebound mass; the last bucket is the rest up to 1.
inline constexpr std::array<double, 11> kReboundMassEdges = {0.001, 0.003, 0.01, 0.03, 0.1, 0.2,
                                                             0.3,   0.5,   0.7,  0.9,  0.99};
using ReboundHistogram = std::array<std::int64_t, kReboundMassEdges.size() + 1>;

// The (layer, KV head) whose mean is worst.
struct WorstHead {
  double mean = 0;
  int layer = 0;
  int kv_head = 0;
  bool operator==(const WorstHead&) const = default;
};

struct ProbeMetric {
  RunningStat overall;
  std::vector<RunningStat> by_layer;     // [n_layers]; n = 0 in a layer without ghosts
  std::vector<RunningStat> by_step_bin;  // [bins used], step_bins.h
  Sketch sketch;                         // of the same values
  std::optional<WorstHead> worst_head;

  void merge(const ProbeMetric& other, Worst worst);
  // A candidate; the first of equals stays.
  void take_worse(const WorstHead& head, Worst worst);
};

struct ProbeSummary : ProbeQuantities<ProbeMetric> {
  ProbeSummary();

  ReboundHistogram rebound_mass_histogram{};  // finite rows; value <= edge, as Prometheus counts,
                                              // but not cumulative
  std::int64_t top_key_hits = 0;              // of all top-32 keys of all rows
  std::int64_t top_key_misses = 0;

  // Per KV head, with the mean weight of its query heads.
  std::int64_t rebound_events = 0;
  std::int64_t wrongful_evictions =
      0;                          // events that some evictable resident token weighs less than
  std::int64_t ghost_steps = 0;   // sum of ghosts over rows: events per 1k ghost-steps is the rate
  double event_mass = 0;          // Σ ã of events
  double group_rebound_mass = 0;  // Σ ρ of the rows that events were looked for in

  std::optional<double> events_per_1k_ghost_steps() const;
  std::optional<double> event_mass_share() const;  // mass in events / ρ

  // Set where only some rows were looked at: the means are estimates, and not to be mixed with
  // those over all rows.
  std::optional<SampledFacts> sampled;
  GhostFacts ghosts;

  // Of another sequence. Bits depend on the order of merges: merge in a fixed one.
  void merge(const ProbeSummary& other);
};

}  // namespace kvscope
