// Begins at once as a writer; rolls back in the destructor unless committed.
#pragma once

#include "harness/store/database.h"

namespace kvscope {

class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace kvscope
