#include "datasets/text/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "runner/base/error.h"

namespace kvscope {
namespace {

// Length of the well-formed sequence at the start of `bytes`, 0 if there is none. Unicode 15, table
// 3-7.
std::size_t utf8_sequence(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xc2   ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || bytes.size() < length) return 0;
  // Only the second byte has a narrower range, after four of the leads.
  const unsigned char lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < lowest || at(1) > highest) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw IoError(file.string() + " is a folder, a file is needed");
  }
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw IoError("cannot read " + file.string() + ": " + std::strerror(errno ? errno : EIO));
  }
  std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) throw IoError("cannot read " + file.string() + ": " + std::strerror(EIO));
  return bytes;
}

std::optional<std::size_t> first_invalid_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = utf8_sequence(bytes.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

std::string read_text_file(const std::filesystem::path& file) {
  return utf8_text(read_file(file), file);
}

std::string utf8_text(std::string text, const std::filesystem::path& file) {
  if (const auto bad = first_invalid_utf8(text)) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n');
    throw DataError(file.string() + " is not UTF-8 text (line " + std::to_string(line) + ", byte " +
                    std::to_string(*bad) + "): convert it, for example with iconv");
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool crlf = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (!crlf) text[kept++] = text[i];
  }
  text.resize(kept);
  if (text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
    throw DataError(file.string() + " holds no text");
  }
  return text;
}

}  // namespace kvscope
