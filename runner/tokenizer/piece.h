// A stretch of text on its way through a tokenizer.
#pragma once

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

}  // namespace kvscope
