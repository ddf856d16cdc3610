// Cache hit rate: how many of the tokens that matter most under full attention are still in the
// cache (policies.md 8.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "metrics/probes/row_part.h"

namespace kvscope {

// One row over everything seen: what is visible and what is evicted.
struct SplitRow {
  std::span<const float> visible_logits;            // [n_visible] finite
  std::span<const std::int32_t> visible_positions;  // [n_visible]
  std::span<const float> ghost_logits;              // [n_ghosts] finite
  std::span<const std::int32_t> ghost_positions;    // [n_ghosts]
};

struct Hits {
  std::int64_t hits = 0;  // visible ones among the chosen
  std::int64_t of = 0;    // chosen
  double ratio() const { return of == 0 ? 1.0 : double(hits) / double(of); }
};

// Of all positions and of those inside a universe.
struct TopHits {
  Hits all;
  Hits inside;
};

// Of the smallest set of top tokens that reaches a share of all mass.
struct MassHits {
  Hits hits;
  double mass = 0;          // of the set, in the unit of the weights
  double visible_mass = 0;  // of it, on visible tokens
  double mass_ratio() const { return mass > 0 ? visible_mass / mass : 1.0; }  // mass@p
};

// Buffers that one thread reuses from row to row.
class HitRate {
 public:
  // |Top_k(a*) ∩ V| / min(k, n): the k largest logits, the newer position first among equals. k
  // >= 1.
  Hits hit_at_k(const SplitRow& row, int k, Universe universe = {});

  // Several of them of one row, for which its tokens are sorted into buckets by logit once.
  // visible_weights, ghost_weights: any common multiple of e^logit. Spans must live until the next
  // call. top: the largest logit.
  void begin_row(const SplitRow& row, std::span<const float> visible_weights,
                 std::span<const float> ghost_weights, float top);
  // newest: the largest position of the row.
  TopHits top_hits(int k, const Universe& universe, std::int32_t newest);
  // The same for the smallest set of top tokens whose share of all mass reaches each of `shares`
  // (the crossing token included). 0 < share < 1; out: [shares].
  void hits_at_masses(std::span<const double> shares, std::span<MassHits> out);

  MassHits hit_at_mass(const SplitRow& row, std::span<const float> visible_weights,
                       std::span<const float> ghost_weights, double share);

 private:
  struct Entry {
    std::uint64_t
        rank_key;  // larger: earlier in the order of logit, then position; lowest bit: is a ghost
    double weight;
  };

  struct Crossing {              // where a share ends
    double wanted = 0;           // of the bucket with the crossing token
    std::size_t entries_of = 0;  // the first share that ends in that bucket
    std::vector<Entry> entries;  // the bucket's, of that share only
  };

  struct Bucket {
    double weight = 0;
    double visible_weight = 0;
    std::int32_t n = 0;
    std::int32_t visible = 0;
  };

  // Moves the smallest set of top entries that weighs `wanted` to the front; its size, at least 1
  // of any.
  static std::size_t choose_mass(std::vector<Entry>& entries, double wanted);

  // The first bucket whose tokens and all larger ones are at least n.
  std::size_t bucket_of_rank(std::int64_t n) const;

  SplitRow row_;
  std::span<const float> visible_weights_;
  std::span<const float> ghost_weights_;
  double total_weight_ = 0;
  std::vector<std::uint64_t> keys_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint8_t> visible_bucket_;  // [n_visible]
  std::vector<std::uint8_t> ghost_bucket_;    // [n_ghosts]
  std::vector<Crossing> crossing_;            // [shares]
};

}  // namespace kvscope
