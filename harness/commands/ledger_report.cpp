#include "harness/commands/ledger_report.h"

#include <cmath>

namespace kvscope {
namespace {

Json bytes_json(const KvBytes& bytes) {
  return {{"logical_bytes", bytes.logical_bytes},
          {"physical_bytes", bytes.physical_bytes},
          {"metadata_bytes", bytes.metadata_bytes}};
}

}  // namespace

Json ledger_json(const Ledger& ledger) {
  Json out = {{"prefill_peak", bytes_json(ledger.prefill_peak)},
              {"decode_peak", bytes_json(ledger.decode_peak)},
              {"steady", bytes_json(ledger.steady)},
              {"ghost_peak_bytes", ledger.ghost_peak_bytes},
              {"peak_resident_tokens", ledger.peak_resident_tokens},
              {"peak_visible_tokens", ledger.peak_visible_tokens},
              {"evicted_tokens", ledger.evicted_tokens},
              {"mean_resident_tokens", json_number(ledger.mean_resident_tokens)}};
  if (ledger.prefill_density) out["prefill_density"] = *ledger.prefill_density;
  if (ledger.prefill_recall) out["prefill_recall"] = *ledger.prefill_recall;
  return out;
}

void add_ledger_rows(Table& table, const Ledger& ledger) {
  table.add_row(
      {"resident tokens at the end (mean)", format_fixed(ledger.mean_resident_tokens, 1)});
  if (ledger.prefill_density && ledger.prefill_recall) {
    table.add_row(
        {"prompt attention computed", format_fixed(100.0 * *ledger.prefill_density, 1) + " %"});
    table.add_row(
        {"of the dense attention", format_fixed(100.0 * *ledger.prefill_recall, 1) + " %"});
  }
  table.add_row({"KV bytes at the end", format_bytes(ledger.steady.total_bytes())});
  table.add_row({"KV bytes, peak", format_bytes(ledger.peak().total_bytes())});
}

std::string kinds_text(std::span<const KindRow> kinds) {
  if (kinds.empty()) return {};
  Table table({"task", "bytes at the end", "logical", "physical"});
  table.align(1, Table::Align::kLeft);
  for (const KindRow& row : kinds) {
    if (row.physical_bytes == 0) continue;
    table.add_row({row.task, row.kind, format_bytes(std::llround(row.logical_bytes)),
                   format_bytes(std::llround(row.physical_bytes))});
  }
  return '\n' + table.text();
}

Json kinds_json(std::span<const KindRow> kinds) {
  Json rows = Json::array();
  for (const KindRow& row : kinds) {
    rows.push_back({{"task", row.task},
                    {"dataset", row.dataset},
                    {"kind", row.kind},
                    {"logical_bytes", json_number(row.logical_bytes)},
                    {"physical_bytes", json_number(row.physical_bytes)}});
  }
  return rows;
}

Json process_memory_json(const std::optional<ProcessMemory>& memory) {
  if (!memory) return nullptr;
  return {{"process_peak_bytes", memory->process_peak_bytes},
          {"page_pool_peak_bytes", memory->page_pool_peak_bytes}};
}

Json device_memory_json(const std::optional<DeviceMemory>& memory) {
  if (!memory) return nullptr;
  return {{"allocated_bytes", memory->allocated_bytes},
          {"peak_bytes", memory->peak_bytes},
          {"driver_delta_bytes", memory->driver_delta_bytes}};
}

}  // namespace kvscope
