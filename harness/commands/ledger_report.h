// The ledger of KV bytes as the commands print it.
#pragma once

#include "harness/report/json.h"
#include "harness/report/table.h"
#include "runner/engine/ledger.h"

namespace kvscope {

Json ledger_json(const Ledger& ledger);
void add_ledger_rows(Table& table, const Ledger& ledger);  // a table of two columns

}  // namespace kvscope
