// What one arm of a replay still sees of the full run's attention (policies.md 8.2): mass, the
// heaviest keys, the keys that hold 90 % of the mass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/replay/full_rows.h"

namespace kvscope {

// Sums over the rows and query heads of one (layer, KV head). Rows in which nothing is evicted yet
// count as hits: a hit ratio is over all accesses.
struct HeadHits {
  std::int64_t n = 0;  // rows × query heads
  double lost_mass = 0.0;
  double hit_at_32 = 0.0;
  double hit_at_p90 = 0.0;

  void add(const HeadHits& other);
  double mass_hit() const { return n == 0 ? 1.0 : 1.0 - lost_mass / double(n); }
};

// Calls for different KV heads may be concurrent; rows come a block behind those of `full`, which
// must outlive this.
class HitProbe final : public ProbeSink {
 public:
  HitProbe(const TraceFacts& facts, const FullRows& full);

  const HeadHits& hits(int layer, int kv_head) const {
    return hits_[std::size_t(layer) * stamps_.size() + std::size_t(kv_head)];
  }

  void prompt_cut(int, int, int, std::span<const std::int32_t>, std::span<const float>,
                  std::span<const std::int32_t>, std::span<const float>) override {}
  void attention_row(const AttentionRow& row) override;
  void evicted(int, int, int, int, int) override {}

 private:
  // Tokens visible to the newest row of a KV head carry its number.
  struct Stamps {
    std::uint32_t row = 0;
    std::vector<std::uint32_t> of;  // [n_tokens]
  };

  const FullRows& full_;
  std::vector<Stamps> stamps_;  // [n_kv_heads]
  std::vector<HeadHits> hits_;  // [n_layers][n_kv_heads]
};

}  // namespace kvscope
