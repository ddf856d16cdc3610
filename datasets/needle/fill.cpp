#include "datasets/needle/fill.h"

#include <array>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "runner/base/error.h"

namespace kvscope {
namespace {

std::size_t tokens_of(std::string_view text, const Tokenizer& tokenizer) {
  return tokenizer.encode(text, SpecialTokens::kAsText).size();
}

// Words that this tokenizer writes as one token, their space included; bare marks where it has no
// such words (one token a byte).
std::vector<std::string> one_token_words(const Tokenizer& tokenizer) {
  static constexpr std::array<std::string_view, 6> kWords = {" and", " so", " then",
                                                             " now", " on", " a"};
  std::vector<std::string> found;
  for (const std::string_view word : kWords) {
    if (tokens_of(word, tokenizer) == 1) found.emplace_back(word);
  }
  if (found.empty()) found = {"."};
  return found;
}

std::string padded(const std::string& words, std::size_t pads,
                   std::span<const std::string> pad_words) {
  std::string tail = words;
  for (std::size_t i = 0; i < pads; ++i) {
    const std::string& pad = pad_words[i % pad_words.size()];
    tail += tail.empty() && pad.starts_with(' ') ? pad.substr(1) : pad;
  }
  return tail;
}

std::string without_last_word(const std::string& words) {
  const std::size_t space = words.rfind(' ');
  return space == std::string::npos ? std::string() : words.substr(0, space);
}

}  // namespace

std::string words_within(std::string_view text, std::size_t tokens, const Tokenizer& tokenizer) {
  std::string words;
  std::size_t used = 0;
  for (std::size_t at = text.find_first_not_of(" \n"); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = std::string(" ").append(text.substr(at, end - at));
    used += tokens_of(word, tokenizer);
    if (used > tokens) break;
    words += words.empty() ? word.substr(1) : word;
    at = text.find_first_not_of(" \n", end);
  }
  return words;
}

std::optional<std::string> exact_tail(std::string words, std::size_t length,
                                      const Tokenizer& tokenizer,
                                      const std::function<std::size_t(std::string_view)>& count) {
  const std::vector<std::string> pad_words = one_token_words(tokenizer);
  std::set<std::pair<std::string, std::size_t>> tried;
  std::size_t pads = 0;
  while (tried.emplace(words, pads).second && tried.size() < 32) {
    std::string tail = padded(words, pads, pad_words);
    const std::size_t tokens = count(tail);
    if (tokens == length) return tail;
    if (tokens < length) {
      pads += length - tokens;
    } else if (pads >= tokens - length) {
      pads -= tokens - length;
    } else {
      pads = 0;
      words = without_last_word(words);
    }
  }
  return std::nullopt;
}

void refuse_length(std::size_t length) {
  throw DataError("no prompt of exactly " + std::to_string(length) +
                  " tokens could be made with this model's tokenizer: try another length");
}

ChatQuestion fill_exactly(const GrowingPrompt& prompt, std::size_t length, const ChatTemplate& chat,
                          const Tokenizer& tokenizer) {
  const auto tokens = [&](std::size_t pieces, std::string_view tail) {
    return chat.render_user(prompt.compose(pieces, tail).text).size();
  };
  const std::size_t least = tokens(prompt.least_pieces, "");
  if (least > length) {
    throw UsageError("a prompt of " + std::to_string(length) +
                     " tokens is too short: without filler it has " + std::to_string(least));
  }
  // By the pieces' own counts first, which are a few per cent off for the joined text.
  std::size_t pieces = prompt.least_pieces;
  std::size_t counted = least;
  std::optional<std::size_t> too_many;
  while (true) {
    const std::size_t before = pieces;
    for (std::size_t sum = counted; !too_many || pieces + 1 < *too_many; ++pieces) {
      sum += prompt.piece_tokens(pieces);
      if (sum > length) break;
    }
    if (pieces == before) break;
    counted = tokens(pieces, "");
    for (; counted > length; counted = tokens(pieces, "")) {
      too_many = pieces;
      std::size_t over = counted - length;
      for (std::size_t piece = 0; over > 0 && pieces > prompt.least_pieces; over -= piece) {
        piece = std::min(over, prompt.piece_tokens(--pieces));
      }
    }
  }
  // A piece less leaves more to fill where what is left is less than any tail.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::string words = words_within(prompt.tail_words(pieces), length - counted, tokenizer);
    const auto tail = exact_tail(words, length, tokenizer, [&](std::string_view some) {
      return some.empty() ? counted : tokens(pieces, some);
    });
    if (tail) return prompt.compose(pieces, *tail);
    if (pieces == prompt.least_pieces) break;
    counted = tokens(--pieces, "");
  }
  refuse_length(length);
}

}  // namespace kvscope
