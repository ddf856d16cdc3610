// The text that needles are hidden in, as a list of sentences.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Cuts behind ". ", "! ", "? " (closing quotes and brackets included) and at empty lines. Each
// piece keeps the white space behind it, so the pieces joined are the text.
std::vector<std::string> split_sentences(std::string_view text);

class Haystack {
 public:
  // Five short sentences without a subject, the noise of the first pass-key tests (Mohtashami and
  // Jaggi 2023).
  static Haystack noise(const Tokenizer& tokenizer);
  // A .txt file, or a folder of them joined in the order of their names. Throws IoError or
  // DataError.
  static Haystack from_path(const std::filesystem::path& path, const Tokenizer& tokenizer);

  bool is_noise() const { return noise_; }
  // Sentence `i` counted from the start, round and round.
  // tokens(i) is counted for each sentence alone, so sums are a few tokens off for the joined text.
  const std::string& sentence(std::size_t i) const { return sentences_[i % sentences_.size()]; }
  std::size_t tokens(std::size_t i) const { return token_counts_[i % sentences_.size()]; }
  std::size_t size() const { return sentences_.size(); }

  // Index of the first sentence of each stretch of at least `tokens` tokens; at least one stretch.
  std::vector<std::size_t> sections(std::size_t tokens) const;

 private:
  Haystack(std::vector<std::string> sentences, bool noise, const Tokenizer& tokenizer);

  std::vector<std::string> sentences_;
  std::vector<std::size_t> token_counts_;
  bool noise_;
};

}  // namespace kvscope
