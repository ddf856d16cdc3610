// Classes of Unicode characters at the ends of a text.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvscope {

// Bytes of white space (the property White_Space) at the start and the end. Valid UTF-8.
std::size_t leading_white_space(std::string_view text);
std::size_t trailing_white_space(std::string_view text);

// Is the first (last) character one of a word: alphabetic, a mark, a decimal digit, a connector or
// a joiner? False for an empty text.
bool starts_with_word(std::string_view text);
bool ends_with_word(std::string_view text);

}  // namespace kvscope
