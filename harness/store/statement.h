// One prepared statement (RAII). Parameters and columns count from 1 and 0, as in SQLite.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/store/database.h"

struct sqlite3_stmt;

namespace kvscope {

class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds all parameters in order: integers, doubles, texts, blobs (spans of bytes), optionals
  // (NULL when empty).
  template <typename... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }

  bool step();  // true: a row is there
  void run();   // steps to the end and resets, for statements without rows
  void reset();

  bool is_null(int column) const;
  std::int64_t int64(int column) const;
  int integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::span<const std::byte> blob(int column) const;  // valid until the next step

 private:
  void check(int code) const;
  void bind_one(int index, std::int64_t value);
  void bind_one(int index, int value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, bool value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, double value);
  void bind_one(int index, std::string_view value);
  void bind_one(int index, const std::string& value) { bind_one(index, std::string_view(value)); }
  void bind_one(int index, const char* value) { bind_one(index, std::string_view(value)); }
  void bind_one(int index, std::span<const std::byte> value);
  void bind_null(int index);
  template <typename T>
  void bind_one(int index, const std::optional<T>& value) {
    value ? bind_one(index, *value) : bind_null(index);
  }

  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace kvscope
