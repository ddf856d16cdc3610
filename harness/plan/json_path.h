// A JSON document that a person wrote, read so that every fault is said with its place:
// "suite a.json: policies[1].params: …".
#pragma once

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvscope {

// A value and where it stands. `where` is for people: the file, then the path.
struct JsonAt {
  const nlohmann::json& value;
  std::string file;  // "suite a.json"
  std::string path;  // "policies[1].params"; "" for the document

  // UsageError "FILE: PATH: why".
  [[noreturn]] void refuse(const std::string& why) const;

  JsonAt member(const std::string& key) const;  // must be there
  JsonAt element(std::size_t index) const;
  bool has(const std::string& key) const { return value.contains(key); }

  // Each refuses values of another type.
  void require_object() const;
  void require_array() const;
  std::string text() const;
  // As it would be written on the command line: a number, true, false or a word. Words hold none of
  // the characters that separate things there.
  std::string plain() const;
  // All keys of an object must be among these; suggests the nearest.
  void require_keys(std::initializer_list<std::string_view> known) const;
};

// Reads the whole file. UsageError: not JSON (with line and column), the same key twice in an
// object, larger than 1 MiB. IoError: cannot be read.
nlohmann::json read_json_file(const std::filesystem::path& file, const std::string& name);

}  // namespace kvscope
