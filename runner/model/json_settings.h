// config.json and its like: a JSON object read by key, with one-line errors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// A key that is null counts as absent. Throws DataError for a value of another type.
class JsonSettings {
 public:
  // Throws IoError, or DataError if it is no JSON object.
  static JsonSettings open(const std::filesystem::path& path);
  JsonSettings(std::string name, const nlohmann::json& object);

  bool has(std::string_view key) const;
  bool mentions(std::string_view key) const;  // also as null
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  std::optional<std::vector<std::string>> strings(std::string_view key) const;
  std::vector<std::int32_t> integers(std::string_view key) const;  // one, or an array of them
  std::optional<JsonSettings> object(std::string_view key) const;

  // Positive sizes and numbers; `fallback` < 1 (or none): required.
  int positive(std::string_view key, int fallback = 0) const;
  double positive_real(std::string_view key, std::optional<double> fallback = std::nullopt) const;

  [[noreturn]] void fail(const std::string& what) const;  // DataError "NAME: WHAT"

 private:
  const nlohmann::json* find(std::string_view key) const;
  [[noreturn]] void fail_type(std::string_view key, const char* wanted) const;

  std::string name_;
  std::shared_ptr<const nlohmann::json> object_;
};

}  // namespace kvscope
