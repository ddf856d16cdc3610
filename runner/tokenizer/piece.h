// A stretch of text on its way through a tokenizer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace kvscope {

// What stands before a piece, by which some tokenizers put a space there.
enum class PieceStart {
  kText,      // nothing: the piece begins the text
  kInner,     // a token, or another piece of the text
  kContinued  // a text that was encoded before: nothing is ever put between
};

struct Piece {
  std::string text;
  PieceStart start = PieceStart::kText;
};

// Bytes that the steps of a tokenizer's file may make of a text of `n`: more than any does that is
// meant well, and less than what fills a memory.
constexpr std::size_t most_bytes_from(std::size_t n) {
  return std::max<std::size_t>(std::size_t{1} << 20, 64 * n);
}

}  // namespace kvscope
