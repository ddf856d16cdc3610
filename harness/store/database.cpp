#include "harness/store/database.h"

#include <sqlite3.h>

#include <stdexcept>
#include <utility>

#include "harness/store/statement.h"
#include "runner/base/error.h"

namespace kvscope {

void throw_sqlite(sqlite3* connection, int code, std::string_view what,
                  const std::filesystem::path& file) {
  const std::string why = connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  const std::string place = "database " + file.string() + ": " + std::string(what) + ": " + why;
  switch (code & 0xff) {  // the primary code of an extended one
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw DataError(place + "; the file is damaged: move it away or restore a copy");
    case SQLITE_FULL:
      throw IoError(place + "; free space and run again, finished samples are kept");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      throw IoError(place +
                    "; its folder must exist and be writable, or name another file by --db");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw IoError(place + "; another process holds it");
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
      throw IoError(place);
    default:
      throw std::logic_error(place);
  }
}

Database::Database(std::filesystem::path file, Mode mode) : file_(std::move(file)) {
  int flags = SQLITE_OPEN_NOMUTEX;
  flags |= mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(file_.c_str(), &connection_, flags, nullptr);
  try {
    if (code != SQLITE_OK) throw_sqlite(connection_, code, "cannot open", file_);
    sqlite3_extended_result_codes(connection_, 1);
    sqlite3_busy_timeout(connection_, 10000);
    execute("PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL");
  } catch (...) {
    sqlite3_close(connection_);
    throw;
  }
}

Database::~Database() { sqlite3_close_v2(connection_); }

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw_sqlite(connection_, code, "cannot write", file_);
}

std::int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(connection_); }

std::int64_t Database::pragma(std::string_view name) {
  Statement statement(*this, "PRAGMA " + std::string(name));
  return statement.step() ? statement.int64(0) : 0;
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_) == 0; }

}  // namespace kvscope
