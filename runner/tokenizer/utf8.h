// Where a text is valid UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvscope {

// Bytes of the well-formed character at the start of `text` (1 … 4), or 0 if there is none: as the
// Unicode standard (table 3-7) has it, without surrogates, overlong forms and values above
// U+10FFFF. `text` is not empty.
std::size_t utf8_character_bytes(std::string_view text);

// Length of the longest valid prefix.
std::size_t utf8_valid_prefix(std::string_view text);

}  // namespace kvscope
