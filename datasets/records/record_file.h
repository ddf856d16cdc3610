// A data set's file as a list of JSON objects, whatever it is written in: JSON lines, one array,
// one object, CSV with a header; plain or gzip.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kvscope {

struct Record {
  nlohmann::json value;
  int line = 0;  // of the file on which it begins, from 1
};

// A record that could not be used.
struct SkippedRecord {
  int line = 0;
  std::string reason;
  std::string file = {};  // of a folder's; empty: the file itself
};

enum class Container { kJsonLines, kJsonArray, kJsonObject, kCsv };

struct RecordFile {
  std::filesystem::path path;
  Container container = Container::kJsonLines;
  std::vector<Record> records;
  std::vector<SkippedRecord> bad;  // not JSON, or no object

  std::string place(int line) const { return path.string() + ", line " + std::to_string(line); }
};

// Lines are split at "\n" only (U+2028 and U+0085 occur inside strings). Raw control characters in
// strings, CRLF, a byte-order mark and a missing final line feed are tolerated; a record nested
// deeper than kMostDepth is bad. A file of one line may be JSON lines or one object: it counts as
// an object. Throws IoError when the file cannot be read, DataError when nothing in it is a record.
RecordFile read_record_file(const std::filesystem::path& path);

inline constexpr int kMostDepth = 64;

}  // namespace kvscope
