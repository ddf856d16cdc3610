#include "runner/tokenizer/json_fields.h"

#include "runner/base/error.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(std::string_view key, const char* wanted) {
  throw DataError("'" + std::string(key) + "' " + wanted);
}

}  // namespace

const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& required_member(const Json& object, std::string_view key) {
  const Json* member = find_member(object, key);
  if (member == nullptr) fail(key, "is missing");
  return *member;
}

std::string required_string(const Json& object, std::string_view key) {
  const Json& member = required_member(object, key);
  if (!member.is_string()) fail(key, "is no string");
  return member.get<std::string>();
}

std::int32_t required_id(const Json& object, std::string_view key) {
  return token_id_of(required_member(object, key), std::string("'").append(key).append("'"));
}

bool bool_or(const Json& object, std::string_view key, bool otherwise) {
  const Json* member = find_member(object, key);
  if (member == nullptr) return otherwise;
  if (!member->is_boolean()) fail(key, "is neither true nor false");
  return member->get<bool>();
}

std::string string_or(const Json& object, std::string_view key, std::string otherwise) {
  const Json* member = find_member(object, key);
  if (member == nullptr) return otherwise;
  if (!member->is_string()) fail(key, "is no string");
  return member->get<std::string>();
}

std::int32_t token_id_of(const Json& value, const std::string& what) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxTokenId) {
    return value.get<std::int32_t>();
  }
  throw DataError(what + " is no token id from 0 to " + std::to_string(kMaxTokenId));
}

}  // namespace kvscope
