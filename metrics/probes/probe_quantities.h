// What the attention probe measures, one line a quantity: adding one adds a member, a line of the
// table and its line of metric_infos(). Definitions, frames and costs: docs/probes.md.
#pragma once

#include <array>
#include <string_view>

#include "metrics/stats/sketch.h"

namespace kvscope {

inline constexpr int kTopKeys = 32;
inline constexpr double kHitMassShare = 0.9;
inline constexpr std::array<double, 3> kHitMassShares = {0.5, kHitMassShare, 0.99};

// Value: what is kept of each (of a head, of a sequence).
template <typename Value>
struct ProbeQuantities {
  // One value per query head and row with ghosts whose logits are known.
  Value rebound_mass;                   // ρ, ratio
  Value mass_hit;                       // 1 - ρ, ratio
  Value hit_at_32;                      // hit@32, ratio
  Value hit_at_p50;                     // hit at 50 % mass, ratio
  Value hit_at_p90;                     // hit at 90 % mass, ratio
  Value hit_at_p99;                     // hit at 99 % mass, ratio
  Value mass_at_p90;                    // mass@0.9, ratio
  Value nontrivial_hit_at_32;           // outside sinks and the recent window, ratio
  Value nontrivial_mass_hit;            // likewise
  Value output_perturbation;            // δ, ratio, unbounded; where outputs were asked for
  Value delta_normalised_entropy_full;  // Ĥ(V) - Ĥ(V ∪ E) of the same row
  // One value per query head and row with ghosts, whether their logits are known or not.
  Value entropy_nats;              // H of the visible set
  Value effective_tokens;          // e^H
  Value normalised_entropy;        // H / ln |V|, ratio
  Value delta_normalised_entropy;  // minus its own average before the first eviction
  Value largest_weight;            // max p, ratio
  Value sink_share;                // ratio
  Value recent_share;              // ratio
  // One value per KV head, with the mean weight of its query heads.
  Value diagnosed_healthy;        // 0 or 1 per diagnosed row
  Value diagnosed_wrong_place;    // likewise; the three add up to 1
  Value diagnosed_too_much;       // likewise
  Value ghosts_needed;            // n_q, rows that are not healthy
  Value spare_slots;              // s, likewise
  Value suggested_budget_tokens;  // rows that read too much
  Value key_token_drop;           // after a prompt cut
  Value steps_to_first_event;     // per ghost that fired
  Value eviction_age_tokens;      // per evicted token
};

enum class Worst { kLargest, kSmallest };

template <typename Value>
struct NamedQuantity {
  std::string_view metric;  // its name in metric_infos()
  SketchScale scale;
  Worst worst;  // which end is bad: of it the worst head is reported
  Value ProbeQuantities<Value>::*member;
};

template <typename Value>
constexpr auto named_quantities() {
  using Q = ProbeQuantities<Value>;
  using enum SketchScale;
  using enum Worst;
  return std::to_array<NamedQuantity<Value>>({
      {"rebound_mass", kRatio, kLargest, &Q::rebound_mass},
      {"mass_hit", kRatio, kSmallest, &Q::mass_hit},
      {"hit_at_32", kRatio, kSmallest, &Q::hit_at_32},
      {"hit_at_50_mass", kRatio, kSmallest, &Q::hit_at_p50},
      {"hit_at_90_mass", kRatio, kSmallest, &Q::hit_at_p90},
      {"hit_at_99_mass", kRatio, kSmallest, &Q::hit_at_p99},
      {"mass_at_90_mass", kRatio, kSmallest, &Q::mass_at_p90},
      {"nontrivial_hit_at_32", kRatio, kSmallest, &Q::nontrivial_hit_at_32},
      {"nontrivial_mass_hit", kRatio, kSmallest, &Q::nontrivial_mass_hit},
      {"output_perturbation", kLog, kLargest, &Q::output_perturbation},
      {"delta_normalised_entropy_full", kRatio, kLargest, &Q::delta_normalised_entropy_full},
      {"entropy_nats", kLog, kLargest, &Q::entropy_nats},
      {"effective_tokens", kLog, kLargest, &Q::effective_tokens},
      {"normalised_entropy", kRatio, kLargest, &Q::normalised_entropy},
      {"delta_normalised_entropy", kRatio, kLargest, &Q::delta_normalised_entropy},
      {"largest_weight", kRatio, kSmallest, &Q::largest_weight},
      {"sink_share", kRatio, kLargest, &Q::sink_share},
      {"recent_share", kRatio, kLargest, &Q::recent_share},
      {"diagnosed_healthy", kRatio, kSmallest, &Q::diagnosed_healthy},
      {"diagnosed_wrong_place", kRatio, kLargest, &Q::diagnosed_wrong_place},
      {"diagnosed_too_much", kRatio, kLargest, &Q::diagnosed_too_much},
      {"ghosts_needed", kLog, kLargest, &Q::ghosts_needed},
      {"spare_slots", kLog, kSmallest, &Q::spare_slots},
      {"suggested_budget_tokens", kLog, kLargest, &Q::suggested_budget_tokens},
      {"key_token_drop", kRatio, kLargest, &Q::key_token_drop},
      {"steps_to_first_event", kLog, kSmallest, &Q::steps_to_first_event},
      {"eviction_age_tokens", kLog, kSmallest, &Q::eviction_age_tokens},
  });
}

}  // namespace kvscope
