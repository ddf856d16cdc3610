// Text of equal pieces (sentences) with a few special ones put between them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/needle/fill.h"
#include "datasets/needle/haystack.h"

namespace kvscope {

// An endless supply of filler; both are called with 0, 1, 2, …
struct Filler {
  std::function<std::string(std::size_t i)> piece;         // with the white space behind it
  std::function<std::size_t(std::size_t i)> piece_tokens;  // about
};

// Sentences of a haystack from `first` on, round and round. Refers to the haystack.
Filler sentences_from(const Haystack& haystack, std::size_t first);

// Words for a tail: whole sentences from `first` on, enough for the longest piece there is.
std::string haystack_words(const Haystack& haystack, std::size_t first);

struct Insert {
  double depth = 0;  // 0 to 1: share of the filler's tokens before it
  std::string text;  // without white space around it
  bool is_evidence = false;
};

struct PiecesText {
  std::string opening;  // before the filler, white space included
  std::vector<Insert> inserts;
  std::string separator = "\n";  // between the text and what follows
  std::string closing;           // the question
  std::string answer_prefix;
  std::vector<std::string> golds;
  std::string gold_answer;  // empty: the first of `golds`
  // Around the pieces, as a list has them: "{" and "}".
  std::string list_begin;
  std::string list_end;
};

// Inserts stand between pieces, those of equal place in the order given. The tail closes the text;
// where an insert does, or the text is a list, it opens it.
GrowingPrompt growing(PiecesText text, Filler filler,
                      std::function<std::string(std::size_t pieces)> tail_words);

}  // namespace kvscope
