// Cuts a text into words before byte-pair encoding: no merge crosses a word's edge.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// How the models of one `tokenizer.ggml.pre` cut.
struct PretokenizerRule {
  const char* name;
  // Consecutive matches of the first are words, which the next cuts again; null: no further one.
  std::array<const char*, 4> patterns;
  bool whole_words = false;  // a word that is a token is taken whole, without merges
  bool adds_bos = false;     // when the file does not say
  bool nfc = false;          // the text is brought into Unicode's form NFC first
};

const PretokenizerRule* find_pretokenizer_rule(std::string_view name);  // null if unknown
std::string known_pretokenizers();                                      // "gpt-2, llama-bpe, …"

class Pretokenizer {
 public:
  explicit Pretokenizer(const PretokenizerRule& rule);
  ~Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;

  // Calls `word` for each word in order; together they are the text. A byte that is no part of a
  // valid UTF-8 character is a word of its own and cuts the text as its end would. May be called by
  // several threads at once.
  void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  struct Compiled;

  void split_valid(std::string_view text, std::size_t stage,
                   const std::function<void(std::string_view)>& word) const;

  std::vector<Compiled> stages_;
};

}  // namespace kvscope
