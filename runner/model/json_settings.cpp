#include "runner/model/json_settings.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/model/mapped_file.h"

namespace kvscope {
namespace {

constexpr std::int64_t kLargest = 1 << 30;

}  // namespace

JsonSettings JsonSettings::open(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  const nlohmann::json object =
      nlohmann::json::parse(text, text + file.bytes().size(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    throw DataError(path.string() + ": is not a JSON object; it is damaged, fetch it again");
  return {path.string(), object};
}

JsonSettings::JsonSettings(std::string name, const nlohmann::json& object)
    : name_(std::move(name)), object_(std::make_shared<const nlohmann::json>(object)) {}

void JsonSettings::fail(const std::string& what) const { throw DataError(name_ + ": " + what); }

void JsonSettings::fail_type(std::string_view key, const char* wanted) const {
  fail("key " + kvscope::quoted(key) + " is not " + wanted + "; convert the model again");
}

const nlohmann::json* JsonSettings::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonSettings::has(std::string_view key) const { return find(key) != nullptr; }

bool JsonSettings::mentions(std::string_view key) const {
  return object_->contains(std::string(key));
}

std::optional<std::int64_t> JsonSettings::integer(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) fail_type(key, "a whole number");
  return value->get<std::int64_t>();
}

std::optional<double> JsonSettings::real(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_type(key, "a number");
  return value->get<double>();
}

std::optional<bool> JsonSettings::boolean(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_type(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonSettings::string(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_type(key, "a text");
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> JsonSettings::strings(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) fail_type(key, "an array of texts");
  std::vector<std::string> out;
  for (const nlohmann::json& item : *value) {
    if (!item.is_string()) fail_type(key, "an array of texts");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::int32_t> JsonSettings::integers(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::int32_t> out;
  const auto add = [&](const nlohmann::json& item) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 ||
        item.get<std::int64_t>() > kLargest)
      fail_type(key, "a token id or an array of them");
    out.push_back(item.get<std::int32_t>());
  };
  if (value->is_array()) {
    for (const nlohmann::json& item : *value) add(item);
  } else {
    add(*value);
  }
  return out;
}

std::optional<JsonSettings> JsonSettings::object(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail_type(key, "an object");
  return JsonSettings(name_, *value);
}

int JsonSettings::positive(std::string_view key, int fallback) const {
  const auto value = integer(key);
  if (!value && fallback > 0) return fallback;
  if (!value) fail("key " + kvscope::quoted(key) + " is missing; convert the model again");
  if (*value < 1 || *value > kLargest) {
    fail("key " + kvscope::quoted(key) + " is " + std::to_string(*value) +
         ", not a positive size; convert the model again");
  }
  return int(*value);
}

double JsonSettings::positive_real(std::string_view key, std::optional<double> fallback) const {
  const std::optional<double> value = has(key) ? real(key) : fallback;
  if (!value) fail("key " + kvscope::quoted(key) + " is missing; convert the model again");
  if (!(std::isfinite(*value) && *value > 0))
    fail("key " + kvscope::quoted(key) + " is not a positive number; convert the model again");
  return *value;
}

}  // namespace kvscope
