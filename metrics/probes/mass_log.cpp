#include "metrics/probes/mass_log.h"

#include <algorithm>

namespace kvscope {
namespace {

void add_weights(std::span<const std::int32_t> positions, std::span<const float> weights,
                 std::vector<double>& sums) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto at = std::size_t(positions[i]);
    if (sums.size() <= at) sums.resize(at + 1, 0.0);
    sums[at] += double(weights[i]);
  }
}

}  // namespace

MassLog::MassLog(const AttentionProbeShape& shape, std::vector<int> rows)
    : n_kv_heads_(shape.n_kv_heads),
      rows_(std::move(rows)),
      heads_(std::size_t(shape.n_layers) * std::size_t(shape.n_kv_heads),
             Head{GroupWeights(shape.group_size), {}, {}, {}, 0}) {}

void MassLog::prompt_cut(int layer, int kv_head, int prompt_tokens,
                         std::span<const std::int32_t> ghost_positions,
                         std::span<const float> /*ghost_recent_mean*/,
                         std::span<const std::int32_t> /*resident_positions*/,
                         std::span<const float> /*resident_recent_mean*/) {
  Head& cut = head(layer, kv_head);
  cut.last_row = prompt_tokens - 1;
  for (const std::int32_t ghost : ghost_positions) cut.evicted_at[ghost] = cut.last_row;
}

void MassLog::attention_row(const AttentionRow& row) {
  Head& seen = head(row.layer, row.kv_head);
  seen.last_row = row.position;
  if (!std::binary_search(rows_.begin(), rows_.end(), row.position)) return;
  if (!seen.weights.add(row)) return;
  add_weights(row.ghost_positions, seen.weights.ghosts(), seen.ghost_mass);
  add_weights(row.visible_positions, seen.weights.visible(), seen.cached_mass);
}

void MassLog::evicted(int layer, int kv_head, int position, int /*slot*/, int /*last_slot*/) {
  Head& from = head(layer, kv_head);
  from.evicted_at[position] = from.last_row;
}

std::span<const double> MassLog::ghost_mass(int layer, int kv_head) const {
  return head(layer, kv_head).ghost_mass;
}
std::span<const double> MassLog::cached_mass(int layer, int kv_head) const {
  return head(layer, kv_head).cached_mass;
}

std::optional<int> MassLog::evicted_at(int layer, int kv_head, std::int32_t position) const {
  const auto& known = head(layer, kv_head).evicted_at;
  const auto at = known.find(position);
  return at == known.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace kvscope
