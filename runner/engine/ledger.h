// The account of KV bytes of one arm, as if it ran alone (architecture.md §4): a shared page counts
// whole for every row that holds it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "runner/cache/kv_kinds.h"

namespace kvscope {

struct KvBytes {
  std::int64_t logical_bytes = 0;   // live slots × bytes of a token's keys and values
  std::int64_t physical_bytes = 0;  // pages held
  std::int64_t metadata_bytes = 0;  // positions, rule state, page tables
  std::int64_t total_bytes() const { return physical_bytes + metadata_bytes; }
};

inline KvBytes peak_of(const KvBytes& a, const KvBytes& b) {
  return {std::max(a.logical_bytes, b.logical_bytes), std::max(a.physical_bytes, b.physical_bytes),
          std::max(a.metadata_bytes, b.metadata_bytes)};
}

struct Ledger {
  KvBytes prefill_peak;                   // zero where there was no prompt (in stream)
  KvBytes decode_peak;                    // rows after the prompt, or all rows in stream
  KvBytes steady;                         // after the last selection
  std::int64_t ghost_peak_bytes = 0;      // the probes' own, never counted as the policy's
  std::int64_t peak_resident_tokens = 0;  // largest slots of any (layer, KV head) after a selection
  std::int64_t peak_visible_tokens = 0;   // largest slots of any (layer, KV head) during a row
  std::int64_t evicted_tokens = 0;        // positions dropped, summed over layers and KV heads
  double mean_resident_tokens = 0.0;      // at the end, mean over layers and KV heads
  std::vector<std::int64_t>
      bytes_by_row;  // held after each row past the prompt (pages and metadata)
  std::vector<std::int64_t> bytes_by_layer;  // held at the end
  KvBytesByKind by_kind;                     // likewise
  // Of prompt rows that leave columns out (sparse prefill), mean over layers and query heads: share
  // of the causal entries computed, and of the dense rows' probability on them (last 64 rows).
  std::optional<double> prefill_density = std::nullopt;
  std::optional<double> prefill_recall = std::nullopt;
  KvBytes peak() const { return peak_of(prefill_peak, decode_peak); }
};

}  // namespace kvscope
