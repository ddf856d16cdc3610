#include "metrics/replay/hit_probe.h"

#include <algorithm>

namespace kvscope {

void HeadHits::add(const HeadHits& other) {
  n += other.n;
  lost_mass += other.lost_mass;
  hit_at_32 += other.hit_at_32;
  hit_at_p90 += other.hit_at_p90;
}

HitProbe::HitProbe(const TraceFacts& facts, const FullRows& full)
    : full_(full),
      stamps_(std::size_t(facts.n_kv_heads)),
      hits_(std::size_t(facts.n_layers) * std::size_t(facts.n_kv_heads)) {
  for (Stamps& stamps : stamps_) stamps.of.resize(std::size_t(facts.n_tokens));
}

void HitProbe::attention_row(const AttentionRow& row) {
  HeadHits& hits = hits_[std::size_t(row.layer) * stamps_.size() + std::size_t(row.kv_head)];
  ++hits.n;
  if (row.visible_positions.size() == std::size_t(row.position) + 1) {
    hits.hit_at_32 += 1.0;
    hits.hit_at_p90 += 1.0;
    return;
  }
  Stamps& stamps = stamps_[std::size_t(row.kv_head)];
  if (row.query_head == 0) {
    ++stamps.row;
    for (const std::int32_t position : row.visible_positions)
      stamps.of[std::size_t(position)] = stamps.row;
  }
  const FullRows::Row full = full_.row(row.kv_head, row.query_head, row.position);
  double visible = 0.0;
  for (const std::int32_t position : row.visible_positions)
    visible += double(full.weights[std::size_t(position)]);
  const auto share = [&](std::span<const std::int32_t> keys) {
    const auto n = std::count_if(keys.begin(), keys.end(), [&](std::int32_t position) {
      return stamps.of[std::size_t(position)] == stamps.row;
    });
    return double(n) / double(keys.size());
  };
  hits.lost_mass += std::max(0.0, full.total - visible);
  hits.hit_at_32 += share(full.top_keys);
  hits.hit_at_p90 += share(full.mass_keys);
}

}  // namespace kvscope
