#include "runner/tokenizer/byte_symbols.h"

#include <array>

#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

// Printable Latin-1 bytes stand for themselves, the other 68 are U+0100 … U+0143 in order.
constexpr int kCodes = 256 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<int, 256> code_of_byte{};
  std::array<int, kCodes> byte_of_code{};  // -1: none
};

constexpr Tables make_tables() {
  Tables t;
  t.byte_of_code.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = stands_for_itself(byte) ? byte : next++;
    t.code_of_byte[static_cast<std::size_t>(byte)] = code;
    t.byte_of_code[static_cast<std::size_t>(code)] = byte;
  }
  return t;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::string byte_to_symbol(std::uint8_t byte) {
  const int code = kTables.code_of_byte[byte];
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

std::optional<std::string> symbols_to_bytes(std::string_view symbols) {
  std::string bytes;
  while (!symbols.empty()) {
    const std::size_t length = utf8_character_bytes(symbols);
    if (length != 1 && length != 2) return std::nullopt;
    int code = static_cast<unsigned char>(symbols[0]);
    if (length == 2) code = ((code & 0x1F) << 6) | (symbols[1] & 0x3F);
    if (code >= kCodes || kTables.byte_of_code[static_cast<std::size_t>(code)] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kTables.byte_of_code[static_cast<std::size_t>(code)]);
    symbols.remove_prefix(length);
  }
  return bytes;
}

}  // namespace kvscope
