// Where stretches of text lie among a prompt's tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Decodes a prompt once and answers for any number of its stretches.
class TokenRanges {
 public:
  // The decoded ids should end with `text` (ChatTemplate::render_user).
  TokenRanges(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, std::string_view text);

  // Tokens [first, second) that hold any of bytes [begin, end) of the text. {-1, -1} when the ids
  // do not end with it or the stretch is empty.
  std::pair<int, int> find(std::size_t begin, std::size_t end) const;

 private:
  std::vector<std::size_t> ends_;  // byte behind each token
  std::size_t shift_ = 0;          // bytes of the ids before the text
  std::size_t text_bytes_ = 0;
  bool matches_ = false;
};

// One stretch alone.
inline std::pair<int, int> token_range(const Tokenizer& tokenizer,
                                       std::span<const std::int32_t> ids, std::string_view text,
                                       std::size_t begin, std::size_t end) {
  return TokenRanges(tokenizer, ids, text).find(begin, end);
}

}  // namespace kvscope
