// Reading members of JSON objects that may hold anything. Messages name the member and what is
// wanted; the caller adds the file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kvscope {

// Null where the member is absent or null, or `object` is no object.
const nlohmann::json* find_member(const nlohmann::json& object, std::string_view key);

// Throw DataError where the member is absent or of another type.
const nlohmann::json& required_member(const nlohmann::json& object, std::string_view key);
std::string required_string(const nlohmann::json& object, std::string_view key);
std::int32_t required_id(const nlohmann::json& object, std::string_view key);

// `otherwise` where the member is absent or null. Throws DataError where it is of another type.
bool bool_or(const nlohmann::json& object, std::string_view key, bool otherwise);
std::string string_or(const nlohmann::json& object, std::string_view key, std::string otherwise);

// A token's id: an integer from 0 to kMaxTokenId. Throws DataError.
inline constexpr std::int32_t kMaxTokenId = (1 << 20) - 1;
std::int32_t token_id_of(const nlohmann::json& value, const std::string& what);

}  // namespace kvscope
