// JSON for programs: numbers are never NaN or infinite, text is always valid UTF-8.
#pragma once

#include <cmath>
#include <ostream>
#include <span>

#include <nlohmann/json.hpp>

namespace kvscope {

using Json = nlohmann::ordered_json;

// null where the value is not finite.
inline Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <typename T>
Json json_numbers(std::span<const T> values) {
  Json array = Json::array();
  for (const T value : values) array.push_back(json_number(double(value)));
  return array;
}

// One line. Invalid UTF-8 becomes U+FFFD: a model may write any bytes.
inline void print_json_line(std::ostream& out, const Json& value) {
  out << value.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace kvscope
