// One SQLite connection (RAII).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct sqlite3;

namespace kvscope {

// Throws what an SQLite result code means to a user: DataError for a damaged file, IoError for
// everything about disks, rights and locks, std::logic_error for wrong SQL.
[[noreturn]] void throw_sqlite(sqlite3* connection, int code, std::string_view what,
                               const std::filesystem::path& file);

// Foreign keys on, busy timeout 10 s, synchronous=NORMAL: a power cut may lose the last commits,
// never the file.
class Database {
 public:
  enum class Mode { kReadOnly, kReadWrite, kCreate };

  Database(std::filesystem::path file, Mode mode);  // throws as throw_sqlite
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);  // any number of statements without results
  std::int64_t last_insert_id() const;
  std::int64_t pragma(std::string_view name);  // an integer pragma's value
  bool in_transaction() const;
  sqlite3* handle() const { return connection_; }
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  sqlite3* connection_ = nullptr;
};

}  // namespace kvscope
