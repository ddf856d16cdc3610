#include "runner/tokenizer/token_bytes.h"

#include <charconv>
#include <optional>

#include "runner/base/error.h"
#include "runner/tokenizer/byte_symbols.h"
#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

// "<0x0A>" → 0x0A.
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

std::string token_bytes(const std::string& token, const TokenDecoding& how) {
  if (how.byte_symbols) return symbols_to_bytes(token).value_or(token);
  if (how.byte_tokens) {
    if (const auto byte = byte_of_token(token)) return std::string(1, *byte);
  }
  if (how.space.empty()) return token;
  std::string text;
  std::size_t copied = 0;
  for (std::size_t at = 0; (at = token.find(how.space, at)) != std::string::npos;) {
    text.append(token, copied, at - copied).append(" ");
    copied = at += how.space.size();
  }
  return text.append(token, copied);
}

std::string decode_bytes(std::span<const std::int32_t> ids, std::span<const std::string> bytes) {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= bytes.size()) {
      throw DataError("token id " + std::to_string(id) + " is outside the vocabulary of " +
                      std::to_string(bytes.size()) + "; give ids of this model");
    }
    text += bytes[static_cast<std::size_t>(id)];
  }
  return text;
}

void require_utf8(std::string_view text) {
  const std::size_t valid = utf8_valid_prefix(text);
  if (valid == text.size()) return;
  throw DataError("a text is not UTF-8 at byte " + std::to_string(valid) +
                  ", and this tokenizer takes nothing else; convert the text");
}

}  // namespace kvscope
