// The ledger of KV bytes, and a device's memory, as the commands print them.
#pragma once

#include <optional>

#include "harness/report/json.h"
#include "harness/report/table.h"
#include "runner/backend/backend.h"
#include "runner/engine/ledger.h"

namespace kvscope {

Json ledger_json(const Ledger& ledger);
void add_ledger_rows(Table& table, const Ledger& ledger);  // a table of two columns

// null where there is no device.
Json device_memory_json(const std::optional<DeviceMemory>& memory);

}  // namespace kvscope
