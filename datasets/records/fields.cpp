#include "datasets/records/fields.h"

#include <algorithm>

#include "runner/base/error.h"

namespace kvscope {

using nlohmann::json;

bool has(const json& object, std::string_view name) {
  if (!object.is_object()) return false;
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

const json& need(const json& object, std::string_view name) {
  if (!has(object, name)) throw DataError("no \"" + std::string(name) + "\"");
  return *object.find(name);
}

const json& need_array(const json& object, std::string_view name) {
  const json& value = need(object, name);
  if (!value.is_array()) throw DataError("\"" + std::string(name) + "\" is no list");
  return value;
}

std::string scalar_text(const json& value, std::string_view name) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  throw DataError("\"" + std::string(name) + "\" is neither text nor a number");
}

std::string need_text(const json& object, std::string_view name) {
  return scalar_text(need(object, name), name);
}

std::string text_or(const json& object, std::string_view name, std::string fallback) {
  return has(object, name) ? need_text(object, name) : fallback;
}

std::vector<std::string> texts(const json& value, std::string_view name) {
  if (!value.is_array()) return {scalar_text(value, name)};
  std::vector<std::string> list;
  for (const json& element : value) {
    std::string text = scalar_text(element, name);
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
  }
  return list;
}

std::vector<std::string> need_texts(const json& object, std::string_view name) {
  return texts(need(object, name), name);
}

std::vector<std::string> answers_of(const json& value, std::string_view name) {
  if (!value.is_string()) return texts(value, name);
  const auto text = value.get<std::string>();
  std::vector<std::string> list;
  if (text.starts_with('[') && text.ends_with(']')) {
    for (std::size_t i = 1; i + 1 < text.size(); ++i) {
      const char quote = text[i];
      if (quote != '\'' && quote != '"') continue;
      std::string element;
      for (++i; i < text.size() && text[i] != quote; ++i) {
        if (text[i] == '\\' && i + 1 < text.size()) ++i;
        element.push_back(text[i]);
      }
      list.push_back(std::move(element));
    }
  }
  return list.empty() ? std::vector<std::string>{text} : list;
}

std::size_t byte_of_character(std::string_view text, long n) {
  long seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (starts && seen++ == n) return i;
  }
  return seen == n ? text.size() : std::string_view::npos;
}

}  // namespace kvscope
