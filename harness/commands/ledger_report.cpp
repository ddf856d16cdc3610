#include "harness/commands/ledger_report.h"

namespace kvscope {
namespace {

Json bytes_json(const KvBytes& bytes) {
  return {{"logical_bytes", bytes.logical_bytes},
          {"physical_bytes", bytes.physical_bytes},
          {"metadata_bytes", bytes.metadata_bytes}};
}

}  // namespace

Json ledger_json(const Ledger& ledger) {
  return {{"prefill_peak", bytes_json(ledger.prefill_peak)},
          {"decode_peak", bytes_json(ledger.decode_peak)},
          {"steady", bytes_json(ledger.steady)},
          {"ghost_peak_bytes", ledger.ghost_peak_bytes},
          {"peak_resident_tokens", ledger.peak_resident_tokens},
          {"peak_visible_tokens", ledger.peak_visible_tokens},
          {"evicted_tokens", ledger.evicted_tokens},
          {"mean_resident_tokens", json_number(ledger.mean_resident_tokens)}};
}

void add_ledger_rows(Table& table, const Ledger& ledger) {
  table.add_row(
      {"resident tokens at the end (mean)", format_fixed(ledger.mean_resident_tokens, 1)});
  table.add_row({"KV bytes at the end", format_bytes(ledger.steady.total_bytes())});
  table.add_row({"KV bytes, peak", format_bytes(ledger.peak().total_bytes())});
}

}  // namespace kvscope
