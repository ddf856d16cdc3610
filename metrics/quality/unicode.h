// The little of Unicode that scorers need to agree with their Python originals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// Code point at byte `i` of UTF-8 text; moves `i` behind it. A byte that starts no sequence is
// returned as itself plus kInvalidByte, so that text survives a round trip.
char32_t next_code_point(std::string_view text, std::size_t& i);
inline constexpr char32_t kInvalidByte = 0x110000;

void append_code_point(std::string& text, char32_t c);

// As Python's str.lower for Latin (but the letters of phonetic and African alphabets), Greek
// without its polytonic capitals, Cyrillic, Armenian, Roman numerals and full-width letters. Other
// scripts with case (Cherokee, Georgian capitals, Deseret, …) are left as they are.
std::string lower(std::string_view text);

// As Python's str.isspace for one character.
bool is_space(char32_t c);

// As Python's \d: decimal digits of all scripts below U+10000.
bool is_digit(char32_t c);

// The text's code points, one string each.
std::vector<std::string> characters(std::string_view text);

// Part of a word for a regular expression's \b: letters, digits, "_". Above U+00BF everything
// counts but spaces, general punctuation, symbols, arrows, CJK and full-width punctuation and
// emoji.
bool is_word(char32_t c);

}  // namespace kvscope
