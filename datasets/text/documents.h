// Texts as evaluation data has them: one file, a folder of books, or Wikipedia pages in one file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

struct TextDocument {
  std::string name;      // names its windows and their clusters
  std::string text;      // what is scored
  std::string original;  // whose words and bytes count; empty: `text`
};

enum class TextLayout {
  kPlain,
  // " = Heading = " lines begin a page each; pages are scored detokenised ("well @-@ known" →
  // "well-known"), as lm-eval does.
  kWikitext,
};

// A file is one document (or its pages), a folder one for each of its .txt files in the order of
// their names (PG19's train/, validation/ and test/). Throws IoError or DataError (read_text_file),
// DataError for a folder without texts.
std::vector<TextDocument> load_documents(const std::filesystem::path& path, TextLayout layout);

// Pages of wikitext: what stands before the first heading of level one belongs to none.
std::vector<std::string> wikitext_pages(std::string_view text);
// Undoes wikitext's tokenisation: separators in numbers and words, spaces around punctuation,
// inside brackets and quotes, and beside line feeds.
std::string wikitext_detokenised(std::string text);

// How many pieces the text has when it is split at runs of white space, empty ones at its ends
// included: the "words" of lm-eval's word_perplexity.
std::size_t whitespace_words(std::string_view text);

}  // namespace kvscope
