// Members of a record, read with the kindness that real files need and errors that name the member.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace kvscope {

// All throw DataError without a place: who reads the record knows it. Null counts as not there.
bool has(const nlohmann::json& object, std::string_view name);
const nlohmann::json& need(const nlohmann::json& object, std::string_view name);
const nlohmann::json& need_array(const nlohmann::json& object, std::string_view name);

// Text, or a number or truth value as JSON writes it.
std::string scalar_text(const nlohmann::json& value, std::string_view name);
std::string need_text(const nlohmann::json& object, std::string_view name);
std::string text_or(const nlohmann::json& object, std::string_view name, std::string fallback);

// A list of scalars, or one bare scalar; repetitions are dropped.
std::vector<std::string> texts(const nlohmann::json& value, std::string_view name);
std::vector<std::string> need_texts(const nlohmann::json& object, std::string_view name);

// The same, where text may also be a list as Python prints it: ['4827193', "it's"].
std::vector<std::string> answers_of(const nlohmann::json& value, std::string_view name);

// Byte offset of the n-th Unicode character; npos behind the end. The end itself is an offset.
std::size_t byte_of_character(std::string_view text, long n);

}  // namespace kvscope
