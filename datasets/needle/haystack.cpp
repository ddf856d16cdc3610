#include "datasets/needle/haystack.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Bytes of the closing quote or bracket at the start of `text`, 0 if there is none.
std::size_t closing_mark(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kMarks = {"\"", "'",      ")",
                                                             "]",  "\u201d", "\u2019"};
  for (const std::string_view mark : kMarks) {
    if (text.starts_with(mark)) return mark.size();
  }
  return 0;
}

std::vector<fs::path> text_files(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  fs::directory_iterator entries(path, error);
  if (error)
    throw IoError("cannot read the haystack folder " + path.string() + ": " + error.message());
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  if (files.empty()) throw DataError("the haystack folder " + path.string() + " has no .txt file");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> split_sentences(std::string_view text) {
  std::vector<std::string> sentences;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const bool stop = text[i] == '.' || text[i] == '!' || text[i] == '?';
    const bool paragraph = text.substr(i, 2) == "\n\n";
    std::size_t end = i + 1;
    if (stop) {
      while (const std::size_t mark = closing_mark(text.substr(end))) end += mark;
    }
    const bool ends = paragraph || (stop && end < text.size() && is_space(text[end]));
    if (!ends) {
      ++i;
      continue;
    }
    while (end < text.size() && is_space(text[end])) ++end;
    sentences.emplace_back(text.substr(begin, end - begin));
    begin = i = end;
  }
  if (begin < text.size()) sentences.emplace_back(text.substr(begin));
  return sentences;
}

Haystack::Haystack(std::vector<std::string> sentences, bool noise, const Tokenizer& tokenizer)
    : sentences_(std::move(sentences)), noise_(noise) {
  token_counts_.reserve(sentences_.size());
  for (const std::string& sentence : sentences_) {
    // With the space in front instead of behind, as tokenizers cut words in running text.
    std::string_view bare = sentence;
    while (!bare.empty() && is_space(bare.back())) bare.remove_suffix(1);
    const auto ids = tokenizer.encode(std::string(" ").append(bare), SpecialTokens::kAsText);
    token_counts_.push_back(std::max<std::size_t>(1, ids.size()));
  }
}

Haystack Haystack::noise(const Tokenizer& tokenizer) {
  return Haystack({"The grass is green. ", "The sky is blue. ", "The sun is yellow. ",
                   "Here we go. ", "There and back again. "},
                  true, tokenizer);
}

Haystack Haystack::from_path(const fs::path& path, const Tokenizer& tokenizer) {
  std::string text;
  for (const fs::path& file : text_files(path)) {
    std::string part = read_text_file(file);
    while (!part.empty() && is_space(part.back())) part.pop_back();
    text += part.substr(part.find_first_not_of(" \t\r\n"));
    text += "\n\n";
  }
  return Haystack(split_sentences(text), false, tokenizer);
}

std::vector<std::size_t> Haystack::sections(std::size_t tokens) const {
  std::vector<std::size_t> firsts = {0};
  std::size_t filled = 0;
  for (std::size_t i = 0; i < sentences_.size(); ++i) {
    if (filled >= tokens) {
      firsts.push_back(i);
      filled = 0;
    }
    filled += token_counts_[i];
  }
  // The last stretch would run on into the first one.
  if (filled < tokens && firsts.size() > 1) firsts.pop_back();
  return firsts;
}

}  // namespace kvscope
