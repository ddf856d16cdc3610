#include "datasets/text/documents.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

bool is_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

std::vector<fs::path> texts_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entries(folder, error);
  if (error) throw IoError("cannot read the folder " + folder.string() + ": " + error.message());
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  if (files.empty()) throw DataError("the folder " + folder.string() + " has no .txt file");
  std::ranges::sort(files);
  return files;
}

// " = Title = ": one equals sign on each side, where a section has two or more.
bool is_page_heading(std::string_view line) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
  return line.size() > 4 && line.starts_with("= ") && line.ends_with(" =") &&
         !line.starts_with("= =") && !line.ends_with("= =");
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = out.append(text, done);
}

// Takes the white space away that stands directly inside each pair of marks.
void close_up(std::string& text, char open, char close) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, done)) {
    const std::size_t end = text.find(close, at + 1);
    if (end == std::string::npos) break;
    std::size_t first = at + 1;
    std::size_t last = end;
    while (first < last && is_space(text[first])) ++first;
    while (last > first && is_space(text[last - 1])) --last;
    out.append(text, done, at + 1 - done).append(text, first, last - first);
    out += close;
    done = end + 1;
  }
  if (done > 0) text = out.append(text, done);
}

}  // namespace

std::vector<std::string> wikitext_pages(std::string_view text) {
  std::vector<std::string> pages;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, end - at);
    if (is_page_heading(line)) pages.emplace_back();
    if (!pages.empty()) pages.back() += line;
    at = end;
  }
  return pages;
}

std::string wikitext_detokenised(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kFirst[] = {
      {"s '", "s'"}, {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "},
      {" ; ", "; "}, {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};
  for (const auto& [from, to] : kFirst) replace_all(text, from, to);
  for (const auto& [open, close] : {std::pair('(', ')'), std::pair('[', ']'), std::pair('{', '}'),
                                    std::pair('"', '"'), std::pair('\'', '\'')}) {
    close_up(text, open, close);
  }
  static constexpr std::pair<std::string_view, std::string_view> kLast[] = {
      {"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \u00b0 ", "\u00b0"},
      {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"}};
  for (const auto& [from, to] : kLast) replace_all(text, from, to);
  return text;
}

std::size_t whitespace_words(std::string_view text) {
  std::size_t words = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_space(text[i]) && (i + 1 == text.size() || !is_space(text[i + 1]))) ++words;
  }
  return words;
}

std::vector<TextDocument> load_documents(const fs::path& path, TextLayout layout) {
  std::error_code error;
  const std::vector<fs::path> files =
      fs::is_directory(path, error) ? texts_of(path) : std::vector<fs::path>{path};
  std::vector<TextDocument> documents;
  for (const fs::path& file : files) {
    std::string text = read_text_file(file);
    const std::string name = file.stem().string();
    if (layout == TextLayout::kPlain) {
      documents.push_back({name, std::move(text), {}});
      continue;
    }
    std::size_t number = 0;
    for (std::string& page : wikitext_pages(text)) {
      std::string scored = wikitext_detokenised(page);
      documents.push_back(
          {name + ":page=" + std::to_string(number++), std::move(scored), std::move(page)});
    }
    if (number == 0) {
      throw DataError(file.string() +
                      " has no line like \" = Heading = \": it is not in wikitext's layout");
    }
  }
  return documents;
}

}  // namespace kvscope
