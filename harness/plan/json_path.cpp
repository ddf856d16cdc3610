#include "harness/plan/json_path.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include "runner/base/error.h"
#include "runner/policies/nearest.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // no person writes more

std::string read_text(const std::filesystem::path& file, const std::string& name) {
  std::error_code failed;
  if (std::filesystem::is_directory(file, failed)) throw IoError(name + ": is a folder");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(name + ": cannot be read; check the path");
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw IoError(name + ": cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMostBytes) throw UsageError(name + ": is larger than 1 MiB");
  return text;
}

// The library keeps the last of equal keys; a person meant both.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(const std::string& name) : name_(name) {}

  bool operator()(int, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key &&
        !keys_.back().insert(value.get<std::string>()).second) {
      throw UsageError(name_ + ": \"" + value.get<std::string>() +
                       "\" is given twice in one object; give it once");
    }
    return true;
  }

 private:
  const std::string& name_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" without the front.
std::string without_prefix(const std::string& what) {
  constexpr std::string_view kFront = "parse error at ";
  const std::size_t at = what.find(kFront);
  return at == std::string::npos ? what : what.substr(at + kFront.size());
}

}  // namespace

void JsonAt::refuse(const std::string& why) const {
  throw UsageError(file + ": " + (path.empty() ? "" : path + ": ") + why);
}

JsonAt JsonAt::member(const std::string& key) const {
  return {value.at(key), file, path.empty() ? key : path + "." + key};
}

JsonAt JsonAt::element(std::size_t index) const {
  return {value.at(index), file, path + "[" + std::to_string(index) + "]"};
}

void JsonAt::require_object() const {
  if (!value.is_object()) refuse("is no object but of type " + std::string(value.type_name()));
}

void JsonAt::require_array() const {
  if (!value.is_array()) refuse("is no array but of type " + std::string(value.type_name()));
}

std::string JsonAt::text() const {
  if (!value.is_string()) refuse("is no text but of type " + std::string(value.type_name()));
  return value.get<std::string>();
}

std::string JsonAt::plain() const {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (!value.is_string()) {
    refuse("is neither number, text, true nor false but of type " + std::string(value.type_name()));
  }
  const auto word = value.get<std::string>();
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || std::string_view(":+,=").find(c) != std::string_view::npos) {
      refuse("is no single word: it must hold none of ':', '+', ',', '=' and spaces");
    }
  }
  return word;
}

void JsonAt::require_keys(std::initializer_list<std::string_view> known) const {
  require_object();
  const std::vector<std::string_view> names(known);
  for (const auto& [key, unused] : value.items()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    refuse("unknown key \"" + key + "\"" + suggestion(key, names) + " (known: " + joined(names) +
           ")");
  }
}

json read_json_file(const std::filesystem::path& file, const std::string& name) {
  const std::string text = read_text(file, name);
  try {
    return json::parse(text, DuplicateKeys(name));
  } catch (const json::exception& e) {
    throw UsageError(name + ": is not JSON, or ends too early: " + without_prefix(e.what()));
  }
}

}  // namespace kvscope
