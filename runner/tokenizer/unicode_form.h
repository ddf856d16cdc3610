// Unicode's normal forms and lower case, by utf8proc.
#pragma once

#include <string>
#include <string_view>

namespace kvscope {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

std::string to_unicode_form(std::string_view text, UnicodeForm form);  // `text` is valid UTF-8

// Each character's full lower case, without regard to what stands beside it.
std::string to_lower_case(std::string_view text);  // `text` is valid UTF-8

}  // namespace kvscope
