// GPT-2's printable stand-ins: each byte is written as one Unicode character, so that a token is
// always text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvscope {

std::string byte_to_symbol(std::uint8_t byte);  // UTF-8

// The bytes that a token's symbols stand for; none if it holds a character that stands for no byte.
std::optional<std::string> symbols_to_bytes(std::string_view symbols);

}  // namespace kvscope
