#include "datasets/text/corpora.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>
#include <vector>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

// The lines of a hard-wrapped text as paragraphs: white space in a row is one space, an empty line
// ends a paragraph and stands between two.
std::string joined_paragraphs(std::string_view text) {
  std::string out;
  std::string paragraph;
  const auto finish = [&] {
    if (paragraph.empty()) return;
    if (!out.empty()) out += "\n\n";
    out += paragraph;
    paragraph.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line;
    for (const char c : text.substr(at, end - at)) {
      const bool space = c == ' ' || c == '\t' || c == '\r' || c == '\f';
      if (!space) line += c;
      if (space && !line.empty() && line.back() != ' ') line += ' ';
    }
    if (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.empty()) finish();
    if (!line.empty()) paragraph += (paragraph.empty() ? "" : " ") + line;
    at = end + 1;
  }
  finish();
  return out.empty() ? out : out + "\n";
}

// Between the header and the footer of Project Gutenberg, without the volunteers' credit.
std::string sherlock(std::string text) {
  const std::size_t start = text.find("*** START OF THIS PROJECT GUTENBERG");
  const std::size_t end = text.find("End of the Project Gutenberg EBook");
  if (start == std::string::npos || end == std::string::npos || end < start) return {};
  std::string body = text.substr(text.find('\n', start) + 1, end - text.find('\n', start) - 1);
  const std::size_t credit = body.find("Produced by an anonymous Project Gutenberg volunteer");
  if (credit != std::string::npos) body.erase(credit, body.find('\n', credit) - credit);
  return joined_paragraphs(body);
}

// The first three lines credit the volunteers; "_" marks emphasis.
std::string opticks(std::string text) {
  for (int line = 0; line < 3; ++line) text.erase(0, text.find('\n') + 1);
  std::erase(text, '_');
  return joined_paragraphs(text);
}

std::string policy(std::string text) { return joined_paragraphs(text); }

constexpr auto kCorpora = std::to_array<Corpus>({
    {"sherlock", "golang-github-pierrec-lz4-dev",
     "usr/share/gocode/src/github.com/pierrec/lz4/testdata/pg1661.txt", sherlock},
    {"opticks", "golang-github-andybalholm-brotli-dev",
     "usr/share/gocode/src/github.com/andybalholm/brotli/testdata/Isaac.Newton-Opticks.txt",
     opticks},
    {"policy", "debian-policy", "usr/share/doc/debian-policy/policy.txt.gz", policy},
});

// zlib also reads what is not compressed.
std::string read_maybe_compressed(const fs::path& file) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(gzopen(file.c_str(), "rb"), gzclose);
  if (!in) throw IoError("cannot read " + file.string());
  std::string text;
  std::vector<char> buffer(1 << 16);
  int n = 0;
  while ((n = gzread(in.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  int state = Z_OK;
  gzerror(in.get(), &state);
  if (n < 0 || (state != Z_OK && state != Z_STREAM_END)) {
    throw DataError(file.string() + " is damaged: it cannot be decompressed");
  }
  return text;
}

}  // namespace

std::span<const Corpus> corpora() { return kCorpora; }

TextDocument load_corpus(std::string_view name, const fs::path& root) {
  const auto* corpus = std::ranges::find(kCorpora, name, &Corpus::name);
  if (corpus == kCorpora.end()) {
    std::string known;
    for (const Corpus& one : kCorpora) known += (known.empty() ? "" : ", ") + std::string(one.name);
    throw UsageError("--corpus " + std::string(name) + ": known are " + known);
  }
  const fs::path file = root / corpus->file;
  std::error_code failed;
  if (!fs::exists(file, failed)) {
    throw IoError("--corpus " + std::string(name) + ": " + file.string() +
                  " is not there; install its Debian package (apt-get install " +
                  std::string(corpus->package) + ")");
  }
  std::string text = utf8_text(read_maybe_compressed(file), file);
  text = corpus->cleaned(std::move(text));
  if (text.empty()) {
    throw DataError(file.string() + " holds no text where it was expected: another version of " +
                    std::string(corpus->package) + "?");
  }
  return {std::string(name), std::move(text), {}};
}

}  // namespace kvscope
