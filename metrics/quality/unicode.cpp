#include "metrics/quality/unicode.h"

#include <algorithm>
#include <array>

namespace kvscope {
namespace {

struct Range {
  char32_t first, last;
  bool contains(char32_t c) const { return first <= c && c <= last; }
};

// Capitals that lie a fixed distance before their small letters.
struct Shift {
  Range capitals;
  char32_t distance;
};
constexpr auto kShifts = std::to_array<Shift>({
    {{0x41, 0x5a}, 32},
    {{0xc0, 0xd6}, 32},
    {{0xd8, 0xde}, 32},
    {{0x388, 0x38a}, 37},
    {{0x391, 0x3a1}, 32},
    {{0x3a3, 0x3ab}, 32},
    {{0x400, 0x40f}, 80},
    {{0x410, 0x42f}, 32},
    {{0x531, 0x556}, 48},
    {{0x2160, 0x216f}, 16},
    {{0x24b6, 0x24cf}, 26},
    {{0xff21, 0xff3a}, 32},
});

// Blocks in which capital and small letter alternate, the capital first.
constexpr auto kPairs = std::to_array<Range>({
    {0x100, 0x12f}, {0x132, 0x137}, {0x139, 0x148}, {0x14a, 0x177},   {0x179, 0x17e},
    {0x1a0, 0x1a5}, {0x1af, 0x1b0}, {0x1cd, 0x1dc}, {0x1de, 0x1ef},   {0x1f8, 0x21f},
    {0x222, 0x233}, {0x246, 0x24f}, {0x370, 0x373}, {0x3d8, 0x3ef},   {0x460, 0x481},
    {0x48a, 0x4bf}, {0x4c1, 0x4ce}, {0x4d0, 0x52f}, {0x1e00, 0x1e95}, {0x1ea0, 0x1eff},
});

// The rest, one by one.
struct Single {
  char32_t capital, small;
};
constexpr auto kSingles = std::to_array<Single>({
    {0x178, 0xff},
    {0x376, 0x377},
    {0x386, 0x3ac},
    {0x38c, 0x3cc},
    {0x38e, 0x3cd},
    {0x38f, 0x3ce},
    {0x3f4, 0x3b8},
    {0x3f7, 0x3f8},
    {0x3f9, 0x3f2},
    {0x3fa, 0x3fb},
    {0x4c0, 0x4cf},
    {0x1e9e, 0xdf},
    {0x2126, 0x3c9},
    {0x212a, 'k'},
    {0x212b, 0xe5},
});

// Above U+00BF, what is no part of a word.
constexpr auto kNoWord = std::to_array<Range>({
    {0xd7, 0xd7},     {0xf7, 0xf7},     {0x2c2, 0x2c5},     {0x2d2, 0x2df},
    {0x2e5, 0x2ff},   {0x300, 0x36f},   {0x2000, 0x206f},   {0x20a0, 0x20cf},
    {0x2190, 0x245f}, {0x249c, 0x24e9}, {0x2500, 0x2775},   {0x2794, 0x2bff},
    {0x2e00, 0x2e2e}, {0x2e30, 0x3004}, {0x3008, 0x3020},   {0x3030, 0x3030},
    {0xfe10, 0xfe6f}, {0xff01, 0xff0f}, {0xff1a, 0xff20},   {0xff3b, 0xff40},
    {0xff5b, 0xff65}, {0xffe0, 0xffff}, {0x1f000, 0x1faff}, {kInvalidByte, kInvalidByte + 0xff},
});

// Zeros of the scripts' decimal digits, which lie in runs of ten.
constexpr auto kZeros = std::to_array<char32_t>({
    0x30,   0x660,  0x6f0,  0x7c0,  0x966,  0x9e6,  0xa66,  0xae6,  0xb66,  0xbe6,
    0xc66,  0xce6,  0xd66,  0xde6,  0xe50,  0xed0,  0xf20,  0x1040, 0x1090, 0x17e0,
    0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620,
    0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
});

template <typename Table>
bool in_any(const Table& table, char32_t c) {
  return std::any_of(table.begin(), table.end(),
                     [c](const Range& range) { return range.contains(c); });
}

char32_t lower_code_point(char32_t c) {
  for (const Shift& shift : kShifts) {
    if (shift.capitals.contains(c)) return c + shift.distance;
  }
  for (const Range& pair : kPairs) {
    if (pair.contains(c)) return (c - pair.first) % 2 == 0 ? c + 1 : c;
  }
  for (const Single& single : kSingles) {
    if (single.capital == c) return single.small;
  }
  return c;
}

bool is_letter(char32_t c) {
  const bool digit = U'0' <= c && c <= U'9';
  return is_word(c) && !digit && c != U'_';
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(i);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  char32_t c = length == 1 ? lead : lead & (0xffU >> (length + 1));
  bool valid = length > 0 && i + length <= text.size();
  for (std::size_t k = 1; valid && k < length; ++k) {
    valid = (byte(i + k) & 0xc0) == 0x80;
    c = (c << 6) | (byte(i + k) & 0x3fU);
  }
  if (!valid) {
    ++i;
    return kInvalidByte + lead;
  }
  i += length;
  return c;
}

void append_code_point(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c >= kInvalidByte) {
    put(c - kInvalidByte);
  } else if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string lower(std::string_view text) {
  constexpr char32_t kCapitalSigma = 0x3a3;
  constexpr char32_t kFinalSigma = 0x3c2;
  constexpr char32_t kDottedCapitalI = 0x130;
  std::vector<char32_t> letters;
  for (std::size_t i = 0; i < text.size();) letters.push_back(next_code_point(text, i));
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const char32_t c = letters[i];
    if (c == kCapitalSigma) {
      const bool after_letter = i > 0 && is_letter(letters[i - 1]);
      const bool before_letter = i + 1 < letters.size() && is_letter(letters[i + 1]);
      append_code_point(result, after_letter && !before_letter ? kFinalSigma : lower_code_point(c));
    } else if (c == kDottedCapitalI) {
      append_code_point(result, U'i');
      append_code_point(result, 0x307);  // combining dot above
    } else {
      append_code_point(result, lower_code_point(c));
    }
  }
  return result;
}

bool is_space(char32_t c) {
  return (0x09 <= c && c <= 0x0d) || (0x1c <= c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (0x2000 <= c && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

bool is_digit(char32_t c) {
  const auto zero = std::upper_bound(kZeros.begin(), kZeros.end(), c);
  return zero != kZeros.begin() && c - *(zero - 1) < 10;
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < text.size();) {
    append_code_point(result.emplace_back(), next_code_point(text, i));
  }
  return result;
}

bool is_word(char32_t c) {
  if (c < 0x80) {
    return (U'0' <= c && c <= U'9') || (U'a' <= c && c <= U'z') || (U'A' <= c && c <= U'Z') ||
           c == U'_';
  }
  if (c < 0xc0) {  // ª ² ³ µ ¹ º ¼ ½ ¾
    return c == 0xaa || c == 0xb2 || c == 0xb3 || c == 0xb5 || c == 0xb9 || c == 0xba ||
           (0xbc <= c && c <= 0xbe);
  }
  return !is_space(c) && !in_any(kNoWord, c);
}

}  // namespace kvscope
