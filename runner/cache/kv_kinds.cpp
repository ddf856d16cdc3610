#include "runner/cache/kv_kinds.h"

#include "runner/cache/head_cache.h"

namespace kvscope {
namespace {

void add(KindBytes& to, std::int64_t logical, std::int64_t physical) {
  to.logical_bytes += logical;
  to.physical_bytes += physical;
}

// Groups' minima and maxima are two half-precision numbers each.
constexpr std::int64_t kMinMaxBytes = 2 * sizeof(std::uint16_t);

void add_kivi(const KiviStore& kivi, int head_dim, KvBytesByKind& kinds) {
  const KiviOptions& options = kivi.options();
  const KiviBytes keys = kivi_bytes(options, head_dim, kivi.n_keys(), 0);
  const KiviBytes values = kivi_bytes(options, head_dim, 0, kivi.n_values());
  const std::int64_t key_scales =
      std::int64_t(head_dim) * (kivi.n_keys() / options.group) * kMinMaxBytes;
  const std::int64_t row_scales = head_dim / options.group * kMinMaxBytes;
  // Keys come in whole blocks; the last block of values may be part full.
  const std::int64_t held_values = (kivi.n_values() + kPageSlots - 1) / kPageSlots * kPageSlots;
  const std::int64_t held_bytes = kivi.bytes().physical_bytes;
  add(kinds.keys, keys.logical_bytes - key_scales, keys.logical_bytes - key_scales);
  add(kinds.values, values.logical_bytes - kivi.n_values() * row_scales,
      held_bytes - keys.logical_bytes - held_values * row_scales);
  add(kinds.scales, key_scales + kivi.n_values() * row_scales,
      key_scales + held_values * row_scales);
  add(kinds.tables, kivi.bytes().metadata_bytes, kivi.bytes().metadata_bytes);
}

template <typename T>
std::int64_t bytes_of(const SharedVector<T>& values) {
  return std::int64_t(values.size() * sizeof(T));
}

}  // namespace

std::array<std::pair<std::string_view, KindBytes>, 6> named_kinds(const KvBytesByKind& kinds) {
  return {{{"keys", kinds.keys},
           {"values", kinds.values},
           {"scales", kinds.scales},
           {"positions", kinds.positions},
           {"scores", kinds.scores},
           {"tables", kinds.tables}}};
}

void add_kinds(const HeadCache& head, KvBytesByKind& kinds) {
  const PageShape& shape = head.pool().shape();
  const KiviStore* kivi = head.kivi();
  const std::int64_t element_row =
      std::int64_t(shape.head_dim) * std::int64_t(shape.stored_bytes());
  const std::int64_t scale = shape.is_quantised() ? sizeof(float) : 0;
  const std::int64_t held = std::int64_t(head.n_pages()) * kPageSlots;
  const std::int64_t keys = head.n_slots() - (kivi != nullptr ? kivi->n_keys() : 0);
  const std::int64_t values = head.n_slots() - (kivi != nullptr ? kivi->n_values() : 0);
  kinds.live_slots += head.n_slots() - std::int64_t(head.first_page()) * kPageSlots;
  kinds.page_slots += held;
  add(kinds.keys, keys * element_row, held * element_row);
  add(kinds.values, values * element_row, held * element_row);
  add(kinds.scales, (keys + values) * scale, 2 * held * scale);
  if (kivi != nullptr) add_kivi(*kivi, shape.head_dim, kinds);

  const std::int64_t positions = std::int64_t(head.positions().size_bytes()) + bytes_of(head.rank);
  const std::int64_t scores =
      bytes_of(head.statistic) + bytes_of(head.count) + bytes_of(head.priority);
  const auto tables = std::int64_t(head.pages().size_bytes());
  add(kinds.positions, positions, positions);
  add(kinds.scores, scores, scores);
  add(kinds.tables, tables, tables);
}

}  // namespace kvscope
