// Cache hit rate: how many of the tokens that matter most under full attention are still in the
// cache (policies.md 8.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kvscope {

// One row over everything seen: what is visible and what is evicted.
struct SplitRow {
  std::span<const float> visible_logits;            // [n_visible] finite
  std::span<const std::int32_t> visible_positions;  // [n_visible]
  std::span<const float> ghost_logits;              // [n_ghosts] finite
  std::span<const std::int32_t> ghost_positions;    // [n_ghosts]
};

// Original positions that count, inclusive: the non-trivial variants leave out sinks and the recent
// window, which every policy keeps.
struct Universe {
  std::int32_t first = 0;
  std::int32_t last = std::numeric_limits<std::int32_t>::max();
};

struct Hits {
  std::int64_t hits = 0;  // visible ones among the chosen
  std::int64_t of = 0;    // chosen
  double ratio() const { return of == 0 ? 1.0 : double(hits) / double(of); }
};

// Buffers that one thread reuses from row to row.
class HitRate {
 public:
  // |Top_k(a*) ∩ V| / min(k, n): the k largest logits, the newer position first among equals. k
  // >= 1.
  Hits hit_at_k(const SplitRow& row, int k, Universe universe = {});

  // The same for the smallest set of top tokens whose share of all mass reaches `share` (the
  // crossing token included). visible_weights, ghost_weights: any common multiple of e^logit. 0 <
  // share < 1.
  Hits hit_at_mass(const SplitRow& row, std::span<const float> visible_weights,
                   std::span<const float> ghost_weights, double share);

 private:
  struct Entry {
    std::uint64_t
        rank_key;  // larger: earlier in the order of logit, then position; lowest bit: is a ghost
    double weight;
  };

  struct Bucket {
    double weight = 0;
    std::int32_t n = 0;
    std::int32_t visible = 0;
  };

  // Moves the smallest set of top entries that weighs `wanted` to the front of entries_; its size,
  // at least 1 of any.
  std::size_t choose_mass(double wanted);

  std::vector<std::uint64_t> keys_;
  std::vector<Bucket> buckets_;
  std::vector<Entry> entries_;
};

}  // namespace kvscope
