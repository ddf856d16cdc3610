// From tokens back to bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// How a token's text is turned back into bytes.
struct TokenDecoding {
  bool byte_symbols = false;  // it is written in GPT-2's stand-ins for bytes
  bool byte_tokens = false;   // "<0x0A>" is that byte
  std::string space = {};     // what stands for a space; empty: nothing does
};

std::string token_bytes(const std::string& token, const TokenDecoding& how);

// bytes: [n_vocab]. Throws DataError for an id out of range.
std::string decode_bytes(std::span<const std::int32_t> ids, std::span<const std::string> bytes);

// Throws DataError that names the first byte which is not UTF-8.
void require_utf8(std::string_view text);

}  // namespace kvscope
