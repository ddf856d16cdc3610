// What the bytes of a cache are: the same sums as logical, physical and metadata bytes, split.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace kvscope {

class HeadCache;

struct KindBytes {
  std::int64_t logical_bytes = 0;   // of live slots
  std::int64_t physical_bytes = 0;  // held
};

struct KvBytesByKind {
  KindBytes keys;
  KindBytes values;
  KindBytes scales;     // of quantised keys and values; minima and maxima of kivi's groups
  KindBytes positions;  // original positions and ranks
  KindBytes scores;     // state of the policy's rule or of its host code
  KindBytes tables;     // that find pages and blocks; bounds of pages that are read selectively
  std::int64_t live_slots = 0;  // in pages
  std::int64_t page_slots = 0;  // that those pages have

  std::optional<double> page_occupancy() const {
    if (page_slots == 0) return std::nullopt;
    return double(live_slots) / double(page_slots);
  }
};

std::array<std::pair<std::string_view, KindBytes>, 6> named_kinds(const KvBytesByKind& kinds);

// Adds one head's; state that lies outside it (host code, quest's bounds) is the caller's.
void add_kinds(const HeadCache& head, KvBytesByKind& kinds);

}  // namespace kvscope
