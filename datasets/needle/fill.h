// Makes a prompt exactly as long as asked: filler by the piece, then by the word, then by the
// token.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// A prompt whose filler can grow.
struct GrowingPrompt {
  // The user's turn with `pieces` of filler, and `tail` (words without white space around them, may
  // be empty) where it does no harm.
  std::function<ChatQuestion(std::size_t pieces, std::string_view tail)> compose;
  // About how many tokens a piece adds; never 0.
  std::function<std::size_t(std::size_t piece)> piece_tokens;
  // Text whose first words make the tail of a prompt with so many pieces.
  std::function<std::string(std::size_t pieces)> tail_words;
  std::size_t least_pieces = 1;
};

// The prompt of exactly `length` tokens, template included. What is left when no piece fits any
// more is filled with words and, at last, with function words of one token each. Throws UsageError
// when the least number of pieces is too long already, DataError for a tokenizer with which the
// length cannot be met.
ChatQuestion fill_exactly(const GrowingPrompt& prompt, std::size_t length, const ChatTemplate& chat,
                          const Tokenizer& tokenizer);

// A tail with which a prompt has exactly `length` tokens, `count(tail)` being its length: the given
// words, fewer from the end where they are too many, and words of one token behind them. Nothing
// where there is none, as for a single token that a tail and the line feed behind it exceed.
std::optional<std::string> exact_tail(std::string words, std::size_t length,
                                      const Tokenizer& tokenizer,
                                      const std::function<std::size_t(std::string_view)>& count);
[[noreturn]] void refuse_length(std::size_t length);  // DataError

// Words at the start of `text`, one space between them, whose tokens (each counted with the space
// before it) are at most `tokens`.
std::string words_within(std::string_view text, std::size_t tokens, const Tokenizer& tokenizer);

}  // namespace kvscope
