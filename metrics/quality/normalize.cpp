#include "metrics/quality/normalize.h"

#include <cstddef>

#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

bool is_article(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

// Runs of word characters are kept whole, so that the "a" of "Vane“a" is an article and the "the"
// of "theatre" is not.
std::string drop_articles(std::string_view text) {
  std::string result;
  std::string word;
  const auto flush = [&] {
    result += is_article(word) ? " " : word;
    word.clear();
  };
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (is_word(c)) {
      append_code_point(word, c);
    } else {
      flush();
      append_code_point(result, c);
    }
  }
  flush();
  return result;
}

}  // namespace

bool is_ascii_punctuation(char c) {
  return ('!' <= c && c <= '/') || (':' <= c && c <= '@') || ('[' <= c && c <= '`') ||
         ('{' <= c && c <= '~');
}

std::string normalize_answer(std::string_view text) { return normalize_cased(lower(text)); }

std::string normalize_cased(std::string_view text) {
  std::string bare;
  for (const char c : text) {
    if (!is_ascii_punctuation(c)) bare.push_back(c);
  }
  std::string result;
  for (const std::string& word : split_words(drop_articles(bare))) {
    if (!result.empty()) result.push_back(' ');
    result += word;
  }
  return result;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (is_space(c)) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    append_code_point(words.back(), c);
  }
  return words;
}

}  // namespace kvscope
