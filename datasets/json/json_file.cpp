#include "datasets/json/json_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct StrictJson {
  std::string text;
  std::vector<std::size_t> line_ends;  // offsets in `text` of the original's line feeds
};

// Escapes the control characters inside strings. Lines are split at "\n" only, as other line
// separators of Unicode occur inside strings.
StrictJson escape_control_characters(std::string_view raw) {
  StrictJson strict;
  strict.text.reserve(raw.size());
  bool in_string = false;
  bool escaped = false;
  for (const char c : raw) {
    if (c == '\n') strict.line_ends.push_back(strict.text.size());
    if (in_string && static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      // After a backslash the character is broken either way; dropping the backslash keeps the file
      // readable.
      if (escaped) strict.text.pop_back();
      strict.text += code;
      escaped = false;
      continue;
    }
    strict.text.push_back(c);
    if (!in_string) {
      in_string = c == '"';
    } else if (escaped) {
      escaped = false;
    } else if (c == '\\') {
      escaped = true;
    } else if (c == '"') {
      in_string = false;
    }
  }
  return strict;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const StrictJson strict = escape_control_characters(text);
  try {
    return nlohmann::json::parse(strict.text);
  } catch (const nlohmann::json::parse_error& error) {
    // error.byte counts from 1 and points behind the last byte that was read.
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    const auto line = 1 +
                      std::lower_bound(strict.line_ends.begin(), strict.line_ends.end(), offset) -
                      strict.line_ends.begin();
    throw DataError(where + ", line " + std::to_string(line) + ": not valid JSON");
  }
}

nlohmann::json read_json_file(const std::filesystem::path& file) {
  return parse_json(read_file(file), file.string());
}

}  // namespace kvscope
