#include "harness/store/transaction.h"

#include <sqlite3.h>

namespace kvscope {

// IMMEDIATE: a second writer waits here, not in the middle of the work.
Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // SQLite has rolled back already after some errors (full disk); nothing is left to undo then.
  if (open_ && database_.in_transaction()) {
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace kvscope
