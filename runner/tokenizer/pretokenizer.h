// Cuts a text into words before byte-pair encoding: no merge crosses a word's edge.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace kvscope {

// How the models of one `tokenizer.ggml.pre` cut.
struct PretokenizerRule {
  const char* name;
  const char* pattern;  // consecutive matches are the words
  bool whole_words;     // a word that is a token is taken whole, without merges
  bool adds_bos;        // when the file does not say
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
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace kvscope
