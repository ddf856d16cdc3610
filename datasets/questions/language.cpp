#include "datasets/questions/language.h"

#include <algorithm>
#include <cstddef>

namespace kvscope {

bool is_chinese(std::string_view text) {
  text = text.substr(0, std::min<std::size_t>(text.size(), 1500));
  std::size_t characters = 0;
  std::size_t han = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) == 0x80) continue;
    ++characters;
    // U+4E00 to U+9FFF are three bytes, the first of them E4 (from B8 on) to E9.
    const auto second = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if ((0xe5 <= byte && byte <= 0xe9) || (byte == 0xe4 && second >= 0xb8)) ++han;
  }
  return han * 10 >= characters && han > 0;
}

}  // namespace kvscope
