#include "runner/tokenizer/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

int options_of(UnicodeForm form) {
  constexpr int kStable = UTF8PROC_STABLE;
  switch (form) {
    case UnicodeForm::kNfc:
      return kStable | UTF8PROC_COMPOSE;
    case UnicodeForm::kNfd:
      return kStable | UTF8PROC_DECOMPOSE;
    case UnicodeForm::kNfkc:
      return kStable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case UnicodeForm::kNfkd:
      return kStable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  throw std::logic_error("unknown Unicode form");
}

struct Free {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

}  // namespace

std::string to_unicode_form(std::string_view text, UnicodeForm form) {
  if (is_ascii(text)) return std::string(text);
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &raw,
                   static_cast<utf8proc_option_t>(options_of(form)));
  const std::unique_ptr<utf8proc_uint8_t, Free> bytes(raw);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (length < 0) throw std::runtime_error(std::string("utf8proc: ") + utf8proc_errmsg(length));
  return std::string(reinterpret_cast<const char*>(raw), static_cast<std::size_t>(length));
}

std::string to_lower_case(std::string_view text) {
  constexpr utf8proc_int32_t kCapitalIWithDot =
      0x130;  // the one whose lower case is two characters
  std::string lower;
  lower.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_character_bytes(text);
    utf8proc_int32_t code = 0;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(length), &code);
    if (code == kCapitalIWithDot) {
      lower += "i\u0307";
    } else {
      std::array<utf8proc_uint8_t, 4> bytes{};
      const auto n = utf8proc_encode_char(utf8proc_tolower(code), bytes.data());
      lower.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(n));
    }
    text.remove_prefix(length);
  }
  return lower;
}

}  // namespace kvscope
