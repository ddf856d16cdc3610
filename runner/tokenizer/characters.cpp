#include "runner/tokenizer/characters.h"

#include <utf8proc.h>

namespace kvscope {
namespace {

struct Character {
  utf8proc_int32_t code;
  std::size_t bytes;
};

Character first(std::string_view text) {
  utf8proc_int32_t code = -1;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &code);
  return {code, bytes > 0 ? static_cast<std::size_t>(bytes) : 1};
}

Character last(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && (text[start] & 0xC0) == 0x80) --start;
  return first(text.substr(start));
}

bool is_white_space(utf8proc_int32_t code) {
  return (code >= 0x9 && code <= 0xD) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word(utf8proc_int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // joiners, and the symbols that are alphabetic
      return code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
             (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
             (code >= 0x1F170 && code <= 0x1F189);
  }
}

}  // namespace

std::size_t leading_white_space(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size()) {
    const Character c = first(text.substr(n));
    if (!is_white_space(c.code)) break;
    n += c.bytes;
  }
  return n;
}

std::size_t trailing_white_space(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size()) {
    const Character c = last(text.substr(0, text.size() - n));
    if (!is_white_space(c.code)) break;
    n += c.bytes;
  }
  return n;
}

bool starts_with_word(std::string_view text) { return !text.empty() && is_word(first(text).code); }
bool ends_with_word(std::string_view text) { return !text.empty() && is_word(last(text).code); }

}  // namespace kvscope
