// The ledger of KV bytes, and a device's memory, as the commands print them.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "harness/report/json.h"
#include "harness/report/table.h"
#include "harness/store/memory_kinds.h"
#include "runner/backend/backend.h"
#include "runner/engine/ledger.h"

namespace kvscope {

Json ledger_json(const Ledger& ledger);
void add_ledger_rows(Table& table, const Ledger& ledger);  // a table of two columns

// Bytes at the end by what they are, mean over samples.
std::string kinds_text(std::span<const KindRow> kinds);
Json kinds_json(std::span<const KindRow> kinds);
// null of a run of an older program.
Json process_memory_json(const std::optional<ProcessMemory>& memory);
// null where there is no device.
Json device_memory_json(const std::optional<DeviceMemory>& memory);

}  // namespace kvscope
